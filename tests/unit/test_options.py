# SPDX-License-Identifier: Apache-2.0
"""Options have the types, bounds, defaults and help of the fields that they are derived from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from zaqar_redis import conf as configuration
from zaqar_redis import rules
from zaqar_redis.conf import options
from zaqar_redis.conf.groups import GROUPS


class _ExampleSettings(Struct, frozen=True):
    size: Annotated[int, Meta(ge=1, le=9), "Size."] = 5
    level: Annotated[Literal["low", "high"], "Level."] = "low"
    names: Annotated[tuple[Literal["a", "b"], ...], "Names."] = ()
    key: Annotated[str | None, rules.SECRET, "Key."] = field(default=None, name="secret_key")
    texts: Annotated[Mapping[str, str], "Texts."] = field(default_factory=dict)
    internal: int = 7


class _OtherDefault(_ExampleSettings, frozen=True):
    size: int = 8


def _derived(kind: type[Struct]) -> dict[str, Any]:
    return {option.name: option for option in options.derive(kind)}


def test_field_with_a_text_becomes_an_option_of_its_type() -> None:
    derived = _derived(_ExampleSettings)
    assert list(derived) == ["size", "level", "names", "secret_key", "texts"]
    size = derived["size"]
    assert (size.default, size.help, size.type.min, size.type.max) == (5, "Size.", 1, 9)
    assert list(derived["level"].type.choices) == ["low", "high"]
    assert list(derived["names"].type.item_type.choices) == ["a", "b"]
    assert derived["texts"].type('a:1,b:"2, 3: 4"') == {"a": "1", "b": "2, 3: 4"}
    assert [option.secret for option in derived.values()] == [False, False, False, True, False]


def test_subclass_with_another_default_keeps_bounds_and_help() -> None:
    size = _derived(_OtherDefault)["size"]
    assert (size.default, size.help, size.type.max) == (8, "Size.", 9)


def test_settings_are_filled_with_the_values_of_their_options() -> None:
    given = {"size": 3, "level": "high", "names": ["a"], "secret_key": "x", "texts": {}}
    filled = options.fill(_ExampleSettings, given)
    assert filled == _ExampleSettings(3, "high", ("a",), "x")


def test_defaults_of_all_groups_are_those_of_the_settings() -> None:
    conf = configuration.load([], [])
    for kind in {kind for parts in GROUPS.values() for kind, _ in parts}:
        assert configuration.settings(conf, kind) == kind()
