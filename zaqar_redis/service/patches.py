# SPDX-License-Identifier: Apache-2.0
"""JSON patch as Zaqar has it: add, replace and remove of one metadata key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import errors, metadata_rules

#: What an operation has in a document.
FIELDS = ("op", "path", "value")


class PatchOperation(msgspec.Struct, frozen=True):
    op: str
    key: str
    value: Any = None


def read(document: Any) -> list[PatchOperation]:
    """Returns the operations of a patch document.

    API: an array of ``{"op", "path", "value"}``, the path ``/metadata/<key>``
    with ``~0`` and ``~1`` for tilde and slash.  Raises BadBody.
    """
    if not isinstance(document, list):
        raise errors.BadBody(why="The patch must be an array of operations.")
    return [_change(index, item) for index, item in enumerate(document)]


def _change(index: int, item: Any) -> PatchOperation:
    where = f"Operation {index} of the patch"
    if not isinstance(item, dict):
        raise errors.BadBody(why=f"{where} must be an object.")
    op = item.get("op")
    if op not in ("add", "replace", "remove"):
        raise errors.BadBody(why=f'{where}: "op" must be add, replace or remove.')
    if op != "remove" and "value" not in item:
        raise errors.BadBody(why=f'{where}: "value" is missing.')
    return PatchOperation(op=op, key=_key(where, item.get("path")), value=item.get("value"))


def _key(where: str, path: Any) -> str:
    if not isinstance(path, str):
        raise errors.BadBody(why=f'{where}: "path" must be a string.')
    root, *tokens = [token.strip() for token in path.split("/")]
    if root or len(tokens) != 2 or tokens[0].lower() != "metadata" or not tokens[1]:
        raise errors.BadBody(why=f'{where}: "path" must be /metadata/ and one key.')
    if re.search(r"~(?![01])", tokens[1]):
        raise errors.BadBody(why=f'{where}: in "path", ~ must be written ~0 and / ~1.')
    return tokens[1].replace("~1", "/").replace("~0", "~")


def apply(metadata: dict[str, Any], changes: Sequence[PatchOperation]) -> dict[str, Any]:
    """Returns the metadata with all changes applied.  Raises Conflict."""
    changed = dict(metadata)
    for change in changes:
        reserved = change.key in metadata_rules.RESERVED
        if change.op != "add" and change.key not in changed and not reserved:
            raise errors.Conflict(why=f"Can't {change.op} non-existent object {change.key}.")
        if change.op == "remove":
            # API: removing a reserved attribute that is not set restores the default.
            changed.pop(change.key, None)
        else:
            changed[change.key] = change.value
    return changed
