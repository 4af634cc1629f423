# SPDX-License-Identifier: Apache-2.0
"""Types of arguments, for argparse."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from zaqar_redis import rules


def bounded_int(least: int, most: int) -> Callable[[str], int]:
    """Returns an argparse type for integers from *least* to *most*, both included."""

    def number(given: str) -> int:
        if not least <= int(given) <= most:
            raise argparse.ArgumentTypeError(f"it must be {least} to {most}")
        return int(given)

    return number


def json_object(text: str) -> dict[str, Any]:
    """Parses an argument that is a JSON object."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("it must be a JSON object")
    return found


def resource_name(text: str) -> str:
    """Checks an argument that names a queue, a pool or a flavor."""
    if not rules.is_queue_name(text):
        raise argparse.ArgumentTypeError(
            f"a name has 1 to {rules.QUEUE_NAME_MAX} ASCII letters, digits, underscores, "
            "dashes and dots"
        )
    if text in (".", ".."):
        raise argparse.ArgumentTypeError(f'"{text}" cannot be a name: URLs cannot contain it')
    return text


def is_structured_output(parsed: argparse.Namespace) -> bool:
    """Returns whether the output format has lists and objects; other formats get text."""
    return parsed.formatter in ("json", "yaml")
