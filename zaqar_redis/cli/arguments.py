# SPDX-License-Identifier: Apache-2.0
"""Types of arguments, for argparse."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def bounded_int(least: int, most: int) -> Callable[[str], int]:
    """Returns an argparse type for integers from *least* to *most*, both included."""

    def number(given: str) -> int:
        if not least <= int(given) <= most:
            raise argparse.ArgumentTypeError(f"it must be {least} to {most}")
        return int(given)

    return number
