# SPDX-License-Identifier: Apache-2.0
"""The query parameters of the v2 API, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from falcon.uri import parse_query_string
from msgspec import Meta, Struct

from zaqar_redis import errors

T = TypeVar("T", bound=Struct)
#: API: the texts that Falcon, and so stock Zaqar, takes for booleans.
_BOOLEANS = dict.fromkeys(("true", "True", "t", "yes", "y", "1", "on"), True) | dict.fromkeys(
    ("false", "False", "f", "no", "n", "0", "off"), False
)


class DetailedPageQuery(Struct, frozen=True, kw_only=True):
    marker: Annotated[str, Meta(description="List what follows this name.")] | None = None
    limit: int | None = None
    detailed: bool | None = None


class DetailsQuery(Struct, frozen=True, kw_only=True):
    detailed: bool | None = None


class QueueListQuery(DetailedPageQuery, frozen=True, kw_only=True):
    name: str | None = None
    with_count: bool | None = None
    #: every other parameter: the metadata of that name must be equal
    filters: dict[str, str] = {}


class MessageListQuery(Struct, frozen=True, kw_only=True):
    ids: list[str] | None = None
    marker: str | None = None
    limit: int | None = None
    echo: bool | None = None
    include_claimed: bool | None = None
    include_delayed: bool | None = None
    wait: int | None = None


class MessageDeleteQuery(Struct, frozen=True, kw_only=True):
    ids: list[str] | None = None
    pop: int | None = None
    claim_ids: list[str] | None = None


class HolderQuery(Struct, frozen=True, kw_only=True):
    claim_id: str | None = None


class ClaimQuery(Struct, frozen=True, kw_only=True):
    limit: int | None = None
    wait: int | None = None


class QueryReader(Generic[T]):
    """Reads the parameters of one kind of request.  Those without a value are ignored."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        hints = get_type_hints(kind)
        self._readers = {name: _reader(hint) for name, hint in hints.items() if name != "filters"}
        self._filtered = "filters" in hints
        self._empty = kind()

    def read(self, query_string: str) -> T:
        """Raises BadParameter.  Of a parameter that is given repeatedly the last one counts."""
        if not query_string:
            return self._empty
        given: dict[str, Any] = {}
        filters: dict[str, str] = {}
        for name, value in parse_query_string(query_string).items():
            reader = self._readers.get(name)
            if reader is not None:
                given[name] = reader(name, value)
            elif self._filtered:
                filters[name] = _single(name, value)
        if filters:
            given["filters"] = filters
        return self._kind(**given)


def _reader(hint: Any) -> Callable[[str, Any], Any]:
    kinds = {get_origin(kind) or kind for kind in get_args(hint)}
    return next((read for kind, read in _READERS.items() if kind in kinds), _text)


def _text(name: str, value: str | list[str]) -> str:
    return value if isinstance(value, str) else value[-1]


def _integer(name: str, value: str | list[str]) -> int:
    try:
        return int(_text(name, value))
    except ValueError:
        raise errors.BadParameter(name=name, why="it must be an integer.") from None


def _boolean(name: str, value: str | list[str]) -> bool:
    try:
        return _BOOLEANS[_text(name, value)]
    except KeyError:
        raise errors.BadParameter(name=name, why='it must be "true" or "false".') from None


def _items(name: str, value: str | list[str]) -> list[str]:
    return value.split(",") if isinstance(value, str) else value


def _single(name: str, value: str | list[str]) -> str:
    if not isinstance(value, str):
        raise errors.BadParameter(name=name, why="a filter may be given once.")
    return value


_READERS: dict[type, Callable[[str, Any], Any]] = {int: _integer, bool: _boolean, list: _items}
