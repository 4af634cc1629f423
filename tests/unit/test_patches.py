# SPDX-License-Identifier: Apache-2.0
"""JSON patches of queue metadata."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaqar_redis import errors
from zaqar_redis.service import patches


def _patched(metadata: dict[str, Any], *operations: dict[str, Any]) -> dict[str, Any]:
    return patches.apply(metadata, patches.read(list(operations)))


def test_operations_add_replace_and_remove_keys_in_order() -> None:
    assert _patched(
        {"a": 1, "b": 2},
        {"op": "add", "path": "/metadata/c", "value": [3]},
        {"op": "replace", "path": "/metadata/a", "value": None},
        {"op": "remove", "path": "/metadata/b"},
        {"op": "replace", "path": "/metadata/c", "value": 4},
    ) == {"a": None, "c": 4}


def test_patch_does_not_change_the_given_metadata() -> None:
    metadata = {"a": 1}
    _patched(metadata, {"op": "remove", "path": "/metadata/a"})
    assert metadata == {"a": 1}


def test_an_empty_patch_changes_nothing() -> None:
    assert _patched({"a": 1}) == {"a": 1}


@given(key=st.text(min_size=1).filter(lambda key: key == key.strip()))
def test_path_can_name_any_key(key: str) -> None:
    path = "/metadata/" + key.replace("~", "~0").replace("/", "~1")
    assert _patched({}, {"op": "add", "path": path, "value": 1}) == {key: 1}
    assert _patched({key: 1}, {"op": "remove", "path": path}) == {}


@pytest.mark.parametrize("op", ["replace", "remove"])
def test_operation_on_a_missing_key_is_a_conflict(op: str) -> None:
    with pytest.raises(errors.Conflict, match="non-existent object a"):
        _patched({}, {"op": op, "path": "/metadata/a", "value": 1})


def test_reserved_attributes_always_exist() -> None:
    path = "/metadata/_default_message_ttl"
    assert _patched({}, {"op": "remove", "path": path}) == {}
    replaced = _patched({}, {"op": "replace", "path": path, "value": 60})
    assert replaced == {"_default_message_ttl": 60}


@pytest.mark.parametrize(
    "document",
    [
        *({}, "add", None, [1], [{}], [{"op": "add", "path": "/metadata/a"}]),
        [{"op": "replace", "path": "/metadata/a"}],
        [{"op": "move", "path": "/metadata/a", "value": 1}],
        *([{"op": ["add"], "path": "/metadata/a", "value": 1}], [{"op": "add", "value": 1}]),
        *([{"op": "add", "path": 5, "value": 1}], [{"op": "add", "path": "", "value": 1}]),
        [{"op": "add", "path": "/", "value": 1}],
        [{"op": "add", "path": "/metadata", "value": 1}],
        [{"op": "add", "path": "/metadata/", "value": 1}],
        [{"op": "add", "path": "/metadata/a/b", "value": 1}],
        [{"op": "add", "path": "metadata/a", "value": 1}],
        [{"op": "add", "path": "/other/a", "value": 1}],
        [{"op": "add", "path": "/metadata/fine", "value": 1}, {"op": "add"}],
    ],
)
def test_malformed_patch_is_refused(document: Any) -> None:
    with pytest.raises(errors.BadBody):
        patches.read(document)
