# SPDX-License-Identifier: Apache-2.0
"""Types of arguments, for argparse."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def between(least: int, most: int) -> Callable[[str], int]:
    """A whole number in these bounds, both included."""

    def number(given: str) -> int:
        if not least <= int(given) <= most:
            raise argparse.ArgumentTypeError(f"it must be {least} to {most}")
        return int(given)

    return number
