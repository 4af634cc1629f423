# SPDX-License-Identifier: Apache-2.0
"""Filters of subscriptions: what SNS documents, limits, and any policy against a naive evaluation.

The naive evaluation reads the policy anew for each message, as the grammar is written.
"""

from __future__ import annotations

import ipaddress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaqar_redis import errors
from zaqar_redis.service.subscription_filters import LazyBody, compile_filter

ABSENT = object()


def _attributes_match(policy: dict[str, Any], attributes: dict[str, Any] | None) -> bool:
    return compile_filter({"attributes": policy}).matches(attributes, LazyBody(b"0"))


def _body_matches(policy: dict[str, Any], body: object) -> bool:
    encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return compile_filter({"body": policy}).matches(None, LazyBody(encoded))


# -- the examples that SNS documents, with other values ----------------------

#: Values of a policy; values of a message that match, and that do not.
OPERATORS: list[tuple[list[Any], list[Any], list[Any]]] = [
    (["oak", "elm"], ["oak", "elm", ["pine", "elm"]], ["Oak", "", "oakum", ["pine"], None, {}]),
    ([301.5], [301.5, 3.015e2, [1, 301.5]], [301, "301.5", True, None]),
    ([1, 0], [1, 0, 1.0], [True, False, "1"]),
    ([True], [True, [False, True]], [False, 1, "true"]),
    ([False], [False], [0, None, ""]),
    ([None], [None, [1, None]], [0, False, "", {}, []]),
    ([{"prefix": "oa"}], ["oa", "oak", ["elm", "oak"]], ["Oak", "o", 0, ["elm"]]),
    ([{"suffix": "ak"}], ["oak"], ["oaks", "AK", 1]),
    ([{"equals-ignore-case": "Oak"}], ["oak", "OAK"], ["oaks", "o", 1]),
    ([{"anything-but": ["oak", "elm"]}], ["pine", 3, True, "", ["oak", "pine"]], ["oak", None, []]),
    ([{"anything-but": "oak"}], ["elm"], ["oak", ["oak", "oak"], {}]),
    ([{"anything-but": [100, 500]}], [101, 100.1, True, "100", [100, 50]], [100, 500.0]),
    ([{"anything-but": 1}], [True, 0], [1, 1.0]),
    ([{"anything-but": {"prefix": "oa"}}], ["elm", 5, "Oak"], ["oak", "oa", None]),
    ([{"anything-but": {"suffix": "ak"}}], ["elm", "oaks"], ["oak"]),
    ([{"numeric": ["=", 3]}], [3, 3.0], [3.1, "3", True]),
    ([{"numeric": ["<", 0]}], [-1, -0.1, -(10**40)], [0, 1, "-1", False]),
    ([{"numeric": ["<=", 0]}], [0, False - 1], [0.1, False]),
    ([{"numeric": [">", 0]}], [1, 1e300, 10**40], [0, True]),
    ([{"numeric": [">=", 1]}], [1, 2], [0.9, True]),
    ([{"numeric": [">", 0, "<=", 150]}], [1, 150], [0, 150.1]),
    ([{"numeric": [">=", 0, "<", 150]}], [0, 149.9], [-1, 150]),
    ([2**63], [2**63, float(2**63)], [2**63 - 1, 2**63 + 1]),
    ([{"numeric": ["<", 2**53 + 1]}], [2**53, float(2**53)], [2**53 + 1, 2**53 + 2]),
    ([{"cidr": "10.0.0.0/24"}], ["10.0.0.0", "10.0.0.255"], ["10.0.1.0", "oak", 167772160, "::1"]),
    ([{"cidr": "2001:db8::/32"}], ["2001:db8::1"], ["2001:db9::1", "10.0.0.1"]),
    ([{"exists": True}], ["oak", 0, False, [1], [None, 1]], [None, "", [], {}, {"a": 1}, [None]]),
    ([{"exists": False}], [None, "", [], {}, {"a": 1}], ["oak", 0, False, [1]]),
    (["oak", {"prefix": "el"}, 7], ["oak", "elm", 7], ["pine", 8]),
    ([{"anything-but": ["oak"]}, {"exists": False}], ["elm", None], ["oak"]),
    ([{"exists": True}, {"exists": False}], ["oak", None, [], {}], []),
]


def _cases(table: list[tuple[Any, list[Any], list[Any]]]) -> list[tuple[Any, Any, bool]]:
    return [
        (policy, value, matches)
        for policy, *values in table
        for matches, some in zip((True, False), values, strict=True)
        for value in some
    ]


@pytest.mark.parametrize(("values", "value", "matches"), _cases(OPERATORS))
def test_value_of_a_body_matches_or_not(values: list[Any], value: object, matches: bool) -> None:
    assert _body_matches({"tree": values}, {"tree": value, "other": 1}) is matches


@pytest.mark.parametrize("values", [values for values, _, _ in OPERATORS])
def test_missing_name_matches_only_exists_false(values: list[Any]) -> None:
    expected = {"exists": False} in values
    assert _body_matches({"tree": values}, {"other": 1}) is expected
    assert _body_matches({"tree": values}, {}) is expected
    assert _attributes_match({"tree": values}, {"other": 1}) is expected
    assert _attributes_match({"tree": values}, None) is expected


@pytest.mark.parametrize("values", [values for values, _, _ in OPERATORS])
def test_binary_attribute_matches_only_exists(values: list[Any]) -> None:
    assert _attributes_match({"tree": values}, {"tree": b"oak"}) is ({"exists": True} in values)


POLICIES: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    (
        {"store": ["x"], "price": [{"numeric": [">", 5]}]},
        [{"store": "x", "price": 6, "more": 1}],
        [{"store": "x"}, {"store": "x", "price": 5}, {"store": "y", "price": 6}],
    ),
    (
        {"kind": ["a"], "$or": [{"price": [1]}, {"size": [2], "colour": ["red"]}]},
        [{"kind": "a", "price": 1}, {"kind": "a", "size": 2, "colour": "red"}],
        [{"price": 1}, {"kind": "a"}, {"kind": "a", "size": 2}],
    ),
    (
        {"$or": [{"a": [1]}, {"$or": [{"b": [1]}, {"c": [1]}]}]},
        [{"a": 1}, {"b": 1}, {"c": 1}],
        [{"a": 2}, {}],
    ),
    (
        {"order": {"store": {"town": ["Bern"]}}},
        [{"order": {"store": {"town": "Bern"}}}],
        [{"order": {"town": "Bern"}}, {"order": "Bern"}, {"order": {"store": ["Bern"]}}],
    ),
    (
        {"items": {"name": ["oak"], "price": [1]}},
        [
            {"items": {"name": "oak", "price": 1}},
            {"items": [{"name": "elm"}, {"name": "oak", "price": 1}]},
            {"items": [[{"name": "oak", "price": 1}]]},
        ],
        [{"items": [{"name": "oak", "price": 2}, {"name": "elm", "price": 1}]}, {"items": []}],
    ),
    (
        {"order": {"store": [{"exists": False}]}},
        [{}, {"order": None}, {"order": []}, {"order": "x"}, {"order": {"a": 1}}],
        [{"order": {"store": "x"}}, {"order": [{"store": "x"}]}],
    ),
    (
        {"order": {"$or": [{"a": [1]}, {"b": [1]}]}},
        [{"order": {"a": 1}}, {"order": {"b": 1}}],
        [{"a": 1}, {"order": {"a": 2}}],
    ),
    ({"a.b": [1]}, [{"a.b": 1}], [{"a": {"b": 1}}]),
    ({"a": [1], "b": [1], "c": [1]}, [{"a": 1, "b": 1, "c": 1}], [{"a": 1, "b": 1}]),
]


@pytest.mark.parametrize(("policy", "body", "matches"), _cases(POLICIES))
def test_body_matches_a_policy_or_not(policy: dict[str, Any], body: object, matches: bool) -> None:
    assert _body_matches(policy, body) is matches


@pytest.mark.parametrize(
    "body", [b"", b"{", b'"text"', b"[]", b'[{"a":1}]', b"null", b"\xff", b"[" * 100_000, b"1e999"]
)
def test_body_that_is_no_object_does_not_match(body: bytes) -> None:
    assert not _body_matches({"a": [{"exists": False}]}, body)


def test_deep_and_long_arrays_are_searched() -> None:
    deep: Any = "oak"
    for _ in range(500):
        deep = [deep]
    assert _body_matches({"tree": ["oak"]}, {"tree": deep})
    assert _body_matches({"tree": [{"suffix": "99999"}]}, {"tree": [f"{n}" for n in range(10**5)]})


def test_attributes_and_body_must_both_match() -> None:
    both = compile_filter({"attributes": {"a": [1]}, "body": {"b": [2]}})
    assert both.matches({"a": 1}, LazyBody(b'{"b":2}'))
    assert not both.matches({"a": 1}, LazyBody(b'{"b":3}'))
    assert not both.matches({"a": 2}, LazyBody(b'{"b":2}'))


def test_body_is_decoded_once_for_many_filters() -> None:
    body = LazyBody(b'{"a":1}')
    assert body.object == {"a": 1}
    assert body.object is body.object


# -- what is refused ---------------------------------------------------------


def _nested(levels: int) -> dict[str, Any]:
    policy: dict[str, Any] = {"a": [1]}
    for _ in range(levels - 1):
        policy = {"a": policy}
    return policy


#: A filter, and a part of what the error says.
REFUSED: list[tuple[Any, str]] = [
    ([], '"filter" must be an object'),
    ("a", '"filter" must be an object'),
    ({}, '"filter" must be an object'),
    ({"attributes": {"a": [1]}, "headers": {}}, '"filter" must be an object'),
    ({"attributes": {}}, '"filter.attributes" must be an object with at least one name'),
    ({"body": None}, '"filter.body" must be an object with at least one name'),
    ({"body": {"a": {}}}, '"filter.body.a" must be an object with at least one name'),
    ({"attributes": {"a": "b"}}, '"filter.attributes.a" must be a list of values'),
    ({"attributes": {"a": []}}, '"filter.attributes.a" must be a list of values'),
    ({"attributes": {"a": {"b": [1]}}}, '"filter.attributes.a" must be a list of values'),
    ({"body": {"a": 1}}, '"filter.body.a" must be a list of values, or an object'),
    ({"body": {"a": [[1]]}}, '"filter.body.a" must be a list of texts, numbers'),
    ({"body": {"a": [2**64]}}, '"filter.body.a" must be a number; integers may be from'),
    ({"body": {"a": [-(2**63) - 1]}}, '"filter.body.a" must be a number; integers may be from'),
    ({"body": {"$or": [{"a": [1]}]}}, "a list of two objects or more"),
    ({"body": {"$or": {"a": [1]}}}, "a list of two objects or more"),
    ({"body": {"$or": [{"a": [1]}, 1]}}, '"filter.body.$or[1]" must be an object'),
    ({"body": {"$or": [{"a": [1]}, {"prefix": "b"}]}}, "are no names"),
    ({"body": {"a": [{}]}}, "an object with one operator of exists, prefix"),
    (
        {"body": {"a": [{"prefix": "a", "suffix": "b"}]}},
        "an object with one operator of exists, prefix",
    ),
    ({"body": {"a": [{"wildcard": "a*"}]}}, "an object with one operator of exists, prefix"),
    ({"body": {"a": [{"exists": 1}]}}, '"filter.body.a.exists" must be a boolean'),
    ({"body": {"a": [{"prefix": 1}]}}, '"filter.body.a.prefix" must be a text'),
    ({"body": {"a": [{"suffix": ["b"]}]}}, '"filter.body.a.suffix" must be a text'),
    ({"body": {"a": [{"equals-ignore-case": None}]}}, 'equals-ignore-case" must be a text'),
    ({"body": {"a": [{"anything-but": []}]}}, "texts or numbers"),
    ({"body": {"a": [{"anything-but": None}]}}, "texts or numbers"),
    ({"body": {"a": [{"anything-but": [True]}]}}, "texts or numbers"),
    ({"body": {"a": [{"anything-but": [["b"]]}]}}, "texts or numbers"),
    ({"body": {"a": [{"anything-but": {"numeric": ["=", 1]}}]}}, "prefix or suffix"),
    ({"body": {"a": [{"anything-but": {"prefix": 1}}]}}, 'anything-but.prefix" must be a text'),
    ({"body": {"a": [{"numeric": 1}]}}, "[sign, number]"),
    ({"body": {"a": [{"numeric": []}]}}, "[sign, number]"),
    ({"body": {"a": [{"numeric": ["!=", 1]}]}}, "[sign, number]"),
    ({"body": {"a": [{"numeric": [["<"], 1]}]}}, "[sign, number]"),
    ({"body": {"a": [{"numeric": ["<", 1, ">", 0]}]}}, "[sign, number]"),
    ({"body": {"a": [{"numeric": [">", 0, "<", 1, "<", 2]}]}}, "[sign, number]"),
    ({"body": {"a": [{"numeric": ["<", "1"]}]}}, '"filter.body.a.numeric" must be a number'),
    ({"body": {"a": [{"numeric": ["<", True]}]}}, '"filter.body.a.numeric" must be a number'),
    ({"body": {"a": [{"numeric": [">", 1, "<", 1]}]}}, "less than the second"),
    ({"body": {"a": [{"cidr": "10.0.0.0/33"}]}}, "a network such as"),
    ({"body": {"a": [{"cidr": 1}]}}, '"filter.body.a.cidr" must be a text'),
    ({"attributes": {f"a{n}": [1] for n in range(11)}}, "at most 10 names with 150 values"),
    ({"attributes": {"a": list(range(151))}}, "at most 10 names with 150 values"),
    ({"attributes": {"a": [{"prefix": "b"}] * 31}}, "150 values together, 30 of them operators"),
    ({"body": _nested(11)}, '"filter.body" may be nested at most 10 deep'),
]


@pytest.mark.parametrize(("value", "text"), REFUSED)
def test_bad_filter_is_refused_with_its_place(value: object, text: str) -> None:
    with pytest.raises(errors.BadRequest) as raised:
        compile_filter(value)
    assert text in raised.value.text


@pytest.mark.parametrize(
    "value",
    [
        {"attributes": {f"a{n}": list(range(15)) for n in range(10)}},
        {"attributes": {"a": [2**64 - 1, -(2**63), 1e300]}},
        {"attributes": {"a": [{"prefix": "b"}] * 30}},
        {"body": _nested(10)},
    ],
)
def test_filter_at_its_limits_is_accepted(value: object) -> None:
    compile_filter(value)


# -- any policy, against a naive evaluation ----------------------------------

_TEXTS = st.sampled_from(["", "a", "A", "ab", "ba", "1", "10.0.0.1"])
_INTEGERS = st.sampled_from([-1, 0, 1, 2, 2**53, 2**53 + 1, 2**63])
_NUMBERS = _INTEGERS | st.sampled_from([0.5, 1.0, float(2**53), 1e300])
_SCALARS = st.none() | st.booleans() | _TEXTS | _NUMBERS
_NAMES = st.sampled_from(["a", "b", "c"])
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_BODIES = st.fixed_dictionaries({"a": _JSON, "b": _JSON}, optional={"c": _JSON})
_MESSAGE_ATTRIBUTES = st.dictionaries(_NAMES, _TEXTS | _NUMBERS | st.binary(max_size=1), max_size=3)


def _operator(name: str, operand: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: operand})


_AFFIXES = _operator("prefix", _TEXTS) | _operator("suffix", _TEXTS)
_RANGES = st.tuples(
    st.sampled_from([">", ">="]), _NUMBERS, st.sampled_from(["<", "<="]), _NUMBERS
).filter(lambda bounds: bounds[1] < bounds[3])
_ONE_SIDED = st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), _NUMBERS)
_OPERATORS = (
    _AFFIXES
    | _operator("equals-ignore-case", _TEXTS)
    | _operator("anything-but", st.lists(_TEXTS | _NUMBERS, min_size=1, max_size=2) | _AFFIXES)
    | _operator("numeric", (_ONE_SIDED | _RANGES).map(list))
    | _operator("cidr", st.just("10.0.0.0/30"))
    | _operator("exists", st.booleans())
)
_VALUES = st.lists(_SCALARS | _OPERATORS, min_size=1, max_size=3)


_PLAIN = st.dictionaries(_NAMES, _VALUES, min_size=1, max_size=2)
_OR = st.lists(_PLAIN, min_size=2, max_size=2).map(lambda each: {"$or": each})
_FLAT = _PLAIN | _OR | st.tuples(_PLAIN, _OR).map(lambda two: two[0] | two[1])
#: With at most 10 names: six at the top, and four in the object.
_NESTED = st.tuples(_FLAT, _NAMES, _PLAIN | _OR).map(lambda parts: parts[0] | {parts[1]: parts[2]})


def _wanted(policy: dict[str, Any], values: dict[str, Any]) -> bool:
    return all(_part_wanted(name, part, values) for name, part in policy.items())


def _part_wanted(name: str, part: Any, values: dict[str, Any]) -> bool:
    if name == "$or":
        return any(_wanted(each, values) for each in part)
    leaves = _leaves(values.get(name, ABSENT))
    if isinstance(part, dict):
        objects = [each for each in leaves if isinstance(each, dict)]
        return any(_wanted(part, each) for each in objects or [{}])
    exists = any(
        not isinstance(each, dict) and each is not ABSENT and each not in (None, "", b"")
        for each in leaves
    )
    return {"exists": exists} in [each for each in part if isinstance(each, dict)] or any(
        _value_wanted(one, each) for one in part for each in leaves
    )


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def _value_wanted(one: Any, value: Any) -> bool:
    if value is ABSENT or isinstance(value, (dict, bytes)):
        return False
    if not isinstance(one, dict):
        return isinstance(one, bool) is isinstance(value, bool) and bool(one == value)
    ((name, operand),) = one.items()
    return value is not None and _operator_wants(name, operand, value)


def _operator_wants(name: str, operand: Any, value: Any) -> bool:
    text = value if isinstance(value, str) else None
    if name == "prefix":
        return text is not None and text[: len(operand)] == operand
    if name == "suffix":
        return text is not None and text[max(0, len(text) - len(operand)) :] == operand
    if name == "equals-ignore-case":
        return text is not None and text.lower() == operand.lower()
    if name == "anything-but":
        refused = [operand] if isinstance(operand, dict) else operand
        return not any(_value_wanted(each, value) for each in refused)
    if name == "cidr":
        addresses = [str(each) for each in ipaddress.ip_network(operand)]
        return text in addresses
    return name == "numeric" and _in_range(operand, value)


def _in_range(operand: list[Any], value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    for sign, bound in zip(operand[::2], operand[1::2], strict=True):
        order = (value > bound) - (value < bound)
        if order not in {"=": [0], "<": [-1], "<=": [-1, 0], ">": [1], ">=": [0, 1]}[sign]:
            return False
    return True


@given(values=_VALUES, value=_JSON)
def test_any_values_match_as_the_grammar_says(values: list[Any], value: object) -> None:
    body = {"a": value}
    assert _body_matches({"a": values}, body) is _wanted({"a": values}, body)


@given(policy=_FLAT | _NESTED, body=_BODIES)
def test_any_policy_for_bodies_matches_as_the_grammar_says(
    policy: dict[str, Any], body: dict[str, Any]
) -> None:
    assert _body_matches(policy, body) is _wanted(policy, body)


@given(policy=_FLAT, attributes=_MESSAGE_ATTRIBUTES)
def test_any_policy_for_attributes_matches_as_the_grammar_says(
    policy: dict[str, Any], attributes: dict[str, Any]
) -> None:
    assert _attributes_match(policy, attributes) is _wanted(policy, attributes)


@given(value=_JSON, text=st.text())
def test_anything_as_a_filter_is_compiled_or_refused(value: object, text: str) -> None:
    for policy in ({"a": [value]}, {"a": value}, value, {"a": [{text: value}]}, {text: [value]}):
        for part in ("attributes", "body"):
            try:
                compiled = compile_filter({part: policy})
            except errors.BadRequest:
                continue
            assert compiled.matches({"a": "a"}, LazyBody(b'{"a":[1,{}]}')) in (True, False)
