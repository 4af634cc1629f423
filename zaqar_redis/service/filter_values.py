# SPDX-License-Identifier: Apache-2.0
"""The values that a filter policy lists for a name, compiled into one test.

A value of a message matches if one of the listed values or operators does, and an array if one of
its elements does.
"""

from __future__ import annotations

import functools
import ipaddress
import operator
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from zaqar_redis import errors

#: Integers that attributes can hold.
NUMBER_MIN, NUMBER_MAX = -(2**63), 2**64 - 1

#: Tells whether the value of a name is wanted; `msgspec.UNSET`: the name has none.
Test = Callable[[Any], bool]
#: Makes the test of an operator from its operand and its place in the filter.
_MakeTest = Callable[[Any, str], Test]

_LOWER_BOUNDS: dict[str, Callable[[Any, Any], Any]] = {">": operator.gt, ">=": operator.ge}
_UPPER_BOUNDS: dict[str, Callable[[Any, Any], Any]] = {"<": operator.lt, "<=": operator.le}
_COMPARISONS = {"=": operator.eq} | _LOWER_BOUNDS | _UPPER_BOUNDS


def bad_value(place: str, must_be: str) -> errors.BadRequest:
    return errors.BadRequest(why=f'The value of "{place}" must be {must_be}.')


def elements(value: object) -> Iterator[Any]:
    """Yields a value, or the elements of an array and of the arrays in it."""
    stack = [value]
    while stack:
        top = stack.pop()
        if type(top) is list:
            stack.extend(top)
        else:
            yield top


def compile_values(listed: list[Any], place: str) -> Test:
    """Returns the test that *listed* stands for.  Raises BadRequest that names the *place*.

    Rules of SNS: texts are compared with case.  ``exists`` asks for a value that is neither null,
    empty nor an object.  ``anything-but`` does not match a name without a value.  Booleans and
    texts are no numbers.  Of binary values only ``exists`` knows.
    """
    operators = [each for each in listed if isinstance(each, dict)]
    values = [_plain(each, place) for each in listed if not isinstance(each, dict)]
    tests, existence = _compile_operators(operators, place)
    return _with_arrays(_scalar_test(values, tests), existence)


def _compile_operators(
    operators: list[dict[str, Any]], place: str
) -> tuple[list[Test], frozenset[bool]]:
    """Returns the tests, and the answers that ``exists`` may have."""
    tests: list[Test] = []
    existence: set[bool] = set()
    for each in operators:
        name = next(iter(each), "")
        if len(each) != 1 or (name != "exists" and name not in _OPERATORS):
            raise bad_value(
                place, f"an object with one operator of exists, {', '.join(_OPERATORS)}"
            )
        if name != "exists":
            tests.append(_OPERATORS[name](each[name], f"{place}.{name}"))
        elif isinstance(each[name], bool):
            existence.add(each[name])
        else:
            raise bad_value(f"{place}.exists", "a boolean")
    return tests, frozenset(existence)


def _scalar_test(values: list[Any], tests: list[Test]) -> Test:
    """Returns a test of what is no array."""
    # For Python true is 1.
    plain = frozenset(each for each in values if not isinstance(each, bool))
    booleans = frozenset(each for each in values if isinstance(each, bool))

    def test(value: Any) -> bool:
        kind = type(value)
        if kind is str or kind is int or kind is float:
            if value in plain:
                return True
        elif kind is bool:
            if value in booleans:
                return True
        else:
            return value is None and None in plain
        for each in tests:  # noqa: SIM110  a generator takes longer than what it calls
            if each(value):
                return True
        return False

    return test


def _with_arrays(scalar: Test, existence: frozenset[bool]) -> Test:
    def test(value: Any) -> bool:
        if type(value) is not list:
            return scalar(value) or (bool(existence) and _exists(value) in existence)
        found = list(elements(value))
        return any(map(scalar, found)) or (
            bool(existence) and any(map(_exists, found)) in existence
        )

    return test


def _exists(value: Any) -> bool:
    if isinstance(value, (str, bytes)):
        return bool(value)
    return value is not None and value is not msgspec.UNSET and not isinstance(value, dict)


def _plain(value: object, place: str) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return _number(value, place)
    raise bad_value(place, "a list of texts, numbers, true, false, null and operators")


def _number(value: object, place: str) -> int | float:
    if type(value) is float or (type(value) is int and NUMBER_MIN <= value <= NUMBER_MAX):
        return value
    raise bad_value(place, f"a number; integers may be from {NUMBER_MIN} to {NUMBER_MAX}")


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise bad_value(place, "a text")
    return value


def _prefix(operand: object, place: str) -> Test:
    prefix = _text(operand, place)
    return lambda value: type(value) is str and value.startswith(prefix)


def _suffix(operand: object, place: str) -> Test:
    suffix = _text(operand, place)
    return lambda value: type(value) is str and value.endswith(suffix)


def _equals_ignore_case(operand: object, place: str) -> Test:
    folded = _text(operand, place).casefold()
    return lambda value: type(value) is str and value.casefold() == folded


_ANYTHING_BUT = "texts or numbers, or an object with prefix or suffix"


def _anything_but(operand: object, place: str) -> Test:
    if isinstance(operand, dict):
        return _anything_but_affix(operand, place)
    listed = operand if isinstance(operand, list) else [operand]
    if not listed or any(type(each) not in (str, int, float) for each in listed):
        raise bad_value(place, _ANYTHING_BUT)
    refused = frozenset(_plain(each, place) for each in listed)
    return lambda value: type(value) is bool or value not in refused


def _anything_but_affix(operand: dict[str, Any], place: str) -> Test:
    name = next(iter(operand), "")
    if len(operand) != 1 or name not in ("prefix", "suffix"):
        raise bad_value(place, _ANYTHING_BUT)
    refused = _OPERATORS[name](operand[name], f"{place}.{name}")
    return lambda value: not refused(value)


def _numeric(operand: object, place: str) -> Test:
    match operand:
        case [str() as sign, bound] if sign in _COMPARISONS:
            compare, number = _COMPARISONS[sign], _number(bound, place)
            return lambda value: type(value) in (int, float) and compare(value, number)
        case [str() as lower, least, str() as upper, most] if (
            lower in _LOWER_BOUNDS and upper in _UPPER_BOUNDS
        ):
            return _range(lower, _number(least, place), upper, _number(most, place), place)
    signs = " ".join(_COMPARISONS)
    raise bad_value(
        place, f'[sign, number], with a sign of {signs}, or a range such as [">", 0, "<=", 9]'
    )


def _range(lower: str, least: float, upper: str, most: float, place: str) -> Test:
    if least >= most:
        raise bad_value(place, "a range whose first number is less than the second")
    above, below = _LOWER_BOUNDS[lower], _UPPER_BOUNDS[upper]
    return lambda value: type(value) in (int, float) and above(value, least) and below(value, most)


def _cidr(operand: object, place: str) -> Test:
    try:
        network = ipaddress.ip_network(_text(operand, place), strict=False)
    except ValueError:
        raise bad_value(place, "a network such as 10.0.0.0/24") from None

    def test(value: Any) -> bool:
        address = _address(value) if type(value) is str else None
        return address is not None and address in network

    return test


@functools.lru_cache(maxsize=1024)  # each network of a filter asks for the same one
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


_OPERATORS: dict[str, _MakeTest] = {
    "prefix": _prefix,
    "suffix": _suffix,
    "anything-but": _anything_but,
    "equals-ignore-case": _equals_ignore_case,
    "numeric": _numeric,
    "cidr": _cidr,
}
#: Operators, which no `$or` may have for names.
KEYWORDS = frozenset(_OPERATORS) | {"exists"}
