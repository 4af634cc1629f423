# SPDX-License-Identifier: Apache-2.0
"""The option ``filter`` of subscriptions: which messages they want.

The grammar is that of SNS' filter policies.  A filter is checked and compiled once, into functions
that look at the attributes of a message, at its body, or at both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.records import Attributes
from zaqar_redis.service.filter_values import (
    KEYWORDS,
    Test,
    bad_value,
    compile_values,
    elements,
)

#: Names in a policy: as many as a message may have attributes.  SNS allows 5.
NAMES_MAX = 10
#: Values of all names together: SNS' bound of combinations.
VALUES_MAX = 150
#: Operators of all names together.  Each is tried with every element of an array, and a body may
#: have a hundred thousand: half a second, in which a notifier does nothing else.
OPERATORS_MAX = 30
#: Levels of objects and alternatives in a policy: each costs a call for every message.
DEPTH_MAX = 10

_OR = "$or"
_EMPTY: Mapping[str, Any] = {}

#: Tells whether the values of these names are wanted.
_Policy = Callable[[Mapping[str, Any]], bool]


class LazyBody:
    """The body of a message, decoded once, if a filter asks for it."""

    __slots__ = ("_body", "_object")

    def __init__(self, body: bytes) -> None:
        """*body*: decrypted."""
        self._body: bytes | None = body
        self._object: dict[str, Any] | None = None

    @property
    def object(self) -> dict[str, Any] | None:
        """The object that the JSON text is; None: it is something else, or no JSON."""
        if self._body is not None:
            try:
                decoded = msgspec.json.decode(self._body)
            except (ValueError, RecursionError):
                decoded = None
            self._object = decoded if isinstance(decoded, dict) else None
            self._body = None
        return self._object


class SubscriptionFilter:
    """A filter, compiled."""

    __slots__ = ("_attributes", "_body")

    def __init__(self, attributes: _Policy | None, body: _Policy | None) -> None:
        self._attributes = attributes
        self._body = body

    def matches(self, attributes: Attributes | None, body: LazyBody) -> bool:
        """Tells whether the subscription wants the message; both policies must match.

        A body that is no object does not match a policy for it.  Unlike in SNS, a message without
        any attributes can match: whether ``traceparent`` is there would decide it otherwise.
        """
        if self._attributes is not None and not self._attributes(attributes or _EMPTY):
            return False
        if self._body is None:
            return True
        decoded = body.object
        return decoded is not None and self._body(decoded)


def compile_filter(value: object) -> SubscriptionFilter:
    """Returns the filter that the option is.  Raises BadRequest that names the place in it."""
    if not isinstance(value, dict) or not value or value.keys() - {"attributes", "body"}:
        raise errors.BadRequest(
            why='The value of "filter" must be an object with "attributes", "body" or both.'
        )
    policies = {
        part: _Compiler(f"filter.{part}", nested=part == "body").compile(policy)
        for part, policy in value.items()
    }
    return SubscriptionFilter(policies.get("attributes"), policies.get("body"))


class _Compiler:
    """Compiles a policy, and counts what is in it."""

    def __init__(self, place: str, *, nested: bool) -> None:
        """*nested*: names may have objects."""
        self._place = place
        self._nested = nested
        self._names = 0
        self._values = 0
        self._operators = 0

    def compile(self, policy: object) -> _Policy:
        return self._object(policy, self._place, 1)

    def _object(self, policy: object, place: str, depth: int) -> _Policy:
        if not isinstance(policy, dict) or not policy:
            raise bad_value(place, "an object with at least one name")
        if depth > DEPTH_MAX:
            raise errors.BadRequest(
                why=f'"{self._place}" may be nested at most {DEPTH_MAX} deep, with {_OR}.'
            )
        parts = [self._name(name, each, place, depth) for name, each in policy.items()]
        return parts[0] if len(parts) == 1 else _all_of(parts)

    def _name(self, name: str, value: object, place: str, depth: int) -> _Policy:
        place = f"{place}.{name[:64]}"
        if name == _OR:
            return self._alternatives(value, place, depth)
        if isinstance(value, dict) and self._nested:
            return _nested_test(name, self._object(value, place, depth + 1))
        if not isinstance(value, list) or not value:
            must_be = "a list of values, or an object" if self._nested else "a list of values"
            raise bad_value(place, must_be)
        self._count(value)
        return _named_test(name, compile_values(value, place))

    def _alternatives(self, value: object, place: str, depth: int) -> _Policy:
        if not isinstance(value, list) or len(value) < 2:
            raise bad_value(place, "a list of two objects or more")
        # SNS takes such an $or for the name of a value.
        if any(isinstance(each, dict) and each.keys() & KEYWORDS for each in value):
            raise bad_value(
                place, f"a list of policies; {', '.join(sorted(KEYWORDS))} are no names"
            )
        return _any_of(
            [
                self._object(each, f"{place}[{number}]", depth + 1)
                for number, each in enumerate(value)
            ]
        )

    def _count(self, values: list[Any]) -> None:
        self._names += 1
        self._values += len(values)
        self._operators += sum(isinstance(each, dict) for each in values)
        if self._names > NAMES_MAX or self._values > VALUES_MAX or self._operators > OPERATORS_MAX:
            raise errors.BadRequest(
                why=f'"{self._place}" may have at most {NAMES_MAX} names with {VALUES_MAX} values '
                f"together, {OPERATORS_MAX} of them operators."
            )


def _all_of(policies: list[_Policy]) -> _Policy:
    if len(policies) == 2:  # the usual number, and twice as quick as the loop
        first, second = policies
        return lambda values: first(values) and second(values)

    def match(values: Mapping[str, Any]) -> bool:
        for policy in policies:  # noqa: SIM110  a generator would take longer than the policies
            if not policy(values):
                return False
        return True

    return match


def _any_of(policies: list[_Policy]) -> _Policy:
    return lambda values: any(policy(values) for policy in policies)


def _named_test(name: str, test: Test) -> _Policy:
    return lambda values: test(values.get(name, msgspec.UNSET))


def _nested_test(name: str, policy: _Policy) -> _Policy:
    """One object of a list must match as a whole.  What is no object has no names."""

    def match(values: Mapping[str, Any]) -> bool:
        value = values.get(name)
        if isinstance(value, dict):
            return policy(value)
        found = [each for each in elements(value) if isinstance(each, dict)]
        return any(policy(each) for each in found or (_EMPTY,))

    return match
