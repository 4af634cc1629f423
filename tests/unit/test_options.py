# SPDX-License-Identifier: Apache-2.0
"""Options have the types, bounds, defaults and help of the fields that they are derived from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct, field
from oslo_config import types

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


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (types.Integer(), "a whole number"),
        (types.Integer(min=1), "a whole number of at least 1"),
        (types.Integer(min=-1, max=2**63 - 1), "a whole number from -1 to 9223372036854775807"),
        (types.Float(min=0.1), "a number of at least 0.1"),
        (types.Port(), "a whole number from 0 to 65535"),
        (types.Boolean(), "true or false"),
        (types.HostAddress(), "an IP address or a host name"),
        (types.String(choices=["a"]), "a"),
        (types.String(choices=["", "a", "b"]), "empty, a or b"),
        (types.String(), ""),
        (types.List(types.Integer()), "a list, separated by commas, of a whole number"),
        (types.Dict(), "a list, separated by commas, of name:text"),
    ],
)
def test_type_of_an_option_says_what_its_values_are(of: types.ConfigType, text: str) -> None:
    assert options.allowed(of).startswith(text)


def test_every_option_whose_values_may_be_wrong_says_what_they_are() -> None:
    conf = configuration.load([], [])
    free = (types.String, types.List)
    assert [
        option.name
        for each in configuration.groups(conf).values()
        for option in each
        if not options.allowed(option.type) and not isinstance(option.type, free)
    ] == []


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
