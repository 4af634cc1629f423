# SPDX-License-Identifier: Apache-2.0
"""Searching bodies for a text, however their JSON was written."""

from __future__ import annotations

import json
import re

import msgspec

# RFC 8259, section 7; in a run, since two of them may be one character.
_ESCAPES = re.compile(r'(?:\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))+')


def has_text(body: bytes, text: str) -> bool:
    """Returns whether a body has the text: as it was posted, with its escapes decoded, or as JSON
    without white space, which is how the console and others show it."""
    posted = body.decode()
    if text in posted or text in _ESCAPES.sub(_decoded, posted):
        return True
    try:
        compact = msgspec.json.encode(msgspec.json.decode(body))
    except (msgspec.MsgspecError, RecursionError):  # e.g. half of a surrogate pair
        return False
    return text in compact.decode()


def _decoded(escapes: re.Match[str]) -> str:
    decoded: str = json.loads(f'"{escapes[0]}"')
    return decoded
