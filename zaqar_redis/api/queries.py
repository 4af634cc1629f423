# SPDX-License-Identifier: Apache-2.0
"""The query parameters of the v2 API, and how they are read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from falcon.uri import parse_query_string
from msgspec import Struct

from zaqar_redis import errors, rules
from zaqar_redis.api.descriptions import about

T = TypeVar("T", bound=Struct)
#: API: the texts that Falcon, and so stock Zaqar, takes for booleans.
_BOOLEANS = dict.fromkeys(("true", "True", "t", "yes", "y", "1", "on"), True) | dict.fromkeys(
    ("false", "False", "f", "no", "n", "0", "off"), False
)


_QUEUES = {"minimum": 1, "maximum": "limits.max_queues_per_page"}
_MESSAGES = {"minimum": 1, "maximum": "limits.max_messages_per_page"}
_CLAIMED = {"minimum": 1, "maximum": "limits.max_messages_per_claim_or_pop"}
_IDS = {"minItems": 1, "maxItems": "limits.max_messages_per_page"}
_LIMIT = f"At most this many; else {rules.DEFAULT_PAGE}."
Marker = Annotated[str | None, about("List what follows this, which may be deleted.")]
MessageLimit = Annotated[int | None, about(_LIMIT, **_MESSAGES)]
_Detailed = Annotated[bool | None, about("Show more of each.")]
_Wait = Annotated[
    int | None,
    about(
        "Wait until there is something to answer with, at most this many seconds.",
        minimum=0,
        maximum="limits.max_wait",
    ),
]


class DetailsQuery(Struct, frozen=True, kw_only=True):
    detailed: _Detailed = None


class StatsQuery(Struct, frozen=True, kw_only=True):
    detailed: Annotated[bool | None, about("Delayed messages and counters too.")] = None


class PageQuery(Struct, frozen=True, kw_only=True):
    marker: Marker = None
    limit: Annotated[int | None, about(_LIMIT, **_QUEUES)] = None


class DetailedPageQuery(PageQuery, frozen=True, kw_only=True):
    detailed: _Detailed = None


class TopicListQuery(DetailedPageQuery, frozen=True, kw_only=True):
    name: Annotated[str | None, about("Only topics whose name contains this.")] = None
    filters: Annotated[dict[str, str], about("Every other parameter: as for queues.")] = {}


class QueueListQuery(DetailedPageQuery, frozen=True, kw_only=True):
    name: Annotated[str | None, about("Only queues whose name contains this.")] = None
    with_count: Annotated[bool | None, about("Say how many queues the project has.")] = None
    with_stats: Annotated[
        bool | None, about("Show the detailed statistics of each queue, too.")
    ] = None
    partial: Annotated[
        bool | None,
        about(
            "Also while stores of pools are unavailable: of queues in these the names, as far as "
            "they are known. Else it is 503, as `with_count` is."
        ),
    ] = None
    filters: Annotated[
        dict[str, str],
        about(
            "Every other parameter: only queues whose metadata has that key with that value. "
            "Numbers, booleans and null are given as JSON writes them."
        ),
    ] = {}


class MessageQuery(Struct, frozen=True, kw_only=True):
    detailed: Annotated[
        bool | None, about("Show `claim_count`, `first_claimed`, `reason`, unlike stock.")
    ] = None
    with_attributes: Annotated[
        bool | None, about("Show attributes: stock's clients do not expect them.")
    ] = None


class ShownMessageQuery(MessageQuery, frozen=True, kw_only=True):
    claim_id: Annotated[str | None, about("Of the message's `href`; it has no effect.")] = None


class MessageListQuery(MessageQuery, frozen=True, kw_only=True):
    ids: Annotated[list[str] | None, about("Get these, and ignore the rest.", **_IDS)] = None
    marker: Marker = None
    limit: MessageLimit = None
    echo: Annotated[bool | None, about("Those posted with this `Client-ID` too.")] = None
    include_claimed: Annotated[bool | None, about("Claimed messages too.")] = None
    include_delayed: Annotated[bool | None, about("Delayed messages too.")] = None
    wait: _Wait = None


class TopicMessagesQuery(MessageQuery, frozen=True, kw_only=True):
    ids: Annotated[list[str] | None, about("Get these, and ignore the rest.", **_IDS)] = None
    marker: Marker = None
    limit: MessageLimit = None
    reverse: Annotated[bool | None, about("Newest first; `wait` is ignored.")] = None
    include_delayed: Annotated[bool | None, about("Delayed messages too.")] = None
    wait: _Wait = None


class MessageDeleteQuery(MessageQuery, frozen=True, kw_only=True):
    ids: Annotated[list[str] | None, about("Claimed or not; missing or not.", **_IDS)] = None
    pop: Annotated[int | None, about("Take at most this many, oldest first.", **_CLAIMED)] = None
    claim_ids: Annotated[
        list[str] | None,
        about(
            "The claims that hold the messages of `ids`: if given, each must be held by one of "
            "them, or none is deleted. Needed with `message_delete_with_claim_id`.",
            **_IDS,
        ),
    ] = None

    def chosen(
        self, limits: rules.Limits, ids: str = "ids"
    ) -> tuple[list[str] | None, int | None, list[str] | None]:
        """Returns ids, pop and the claims to check.  Raises BadRequest, which calls the ids *ids*.

        Stock reads the claims only with its option ``message_delete_with_claim_id``.
        """
        if self.ids is None and self.claim_ids is not None:
            raise errors.BadRequest(why=f'"claim_ids" needs "{ids}": the messages that they hold.')
        if (self.ids is None) == (self.pop is None):
            raise errors.BadRequest(why=f'Either "{ids}" or "pop" must be given, and not both.')
        if limits.message_delete_with_claim_id and self.ids is not None and self.claim_ids is None:
            raise errors.BadRequest(why=f'"{ids}" and "claim_ids" must be given together.')
        return self.ids, self.pop, self.claim_ids


class HolderQuery(Struct, frozen=True, kw_only=True):
    claim_id: Annotated[str | None, about("The claim that holds the message.")] = None


class ClaimQuery(MessageQuery, frozen=True, kw_only=True):
    limit: Annotated[int | None, about(_LIMIT, **_CLAIMED)] = None
    wait: _Wait = None


class NoQuery(Struct, frozen=True):
    """That of routes that have no parameters."""


class QueryReader(Generic[T]):
    """Reads the parameters of one kind of request.  Those without a value are ignored."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._readers = _readers(kind)
        self._filtered = "filters" in kind.__struct_fields__
        self._empty = kind()

    def read(self, query_string: str, ignored: list[str] | None = None) -> T:
        """Raises BadParameter.  Of a parameter that is given repeatedly the last one counts.

        *ignored* gets the names of those that are unknown, or have no value.
        """
        if not query_string:
            return self._empty
        given: dict[str, Any] = {}
        filters: dict[str, str] = {}
        for name, given_values in parse_query_string(query_string, keep_blank=True).items():
            several = [given_values] if isinstance(given_values, str) else given_values
            values = [each for each in several if each]
            reader = self._readers.get(name)
            if values and reader is not None:
                given[name] = reader(name, values)
            elif values and self._filtered:
                filters[name] = _single(name, values)
            elif ignored is not None:
                ignored.append(name)
        if filters:
            given["filters"] = filters
        return self._kind(**given)


@functools.cache
def _readers(kind: type) -> dict[str, Callable[[str, list[str]], Any]]:
    """Returns what reads each parameter of a kind of request, but not filters."""
    hints = get_type_hints(kind)
    return {name: _reader(hint) for name, hint in hints.items() if name != "filters"}


def _reader(hint: Any) -> Callable[[str, list[str]], Any]:
    kinds = {get_origin(kind) or kind for kind in get_args(hint)}
    return next(
        (read for kind, read in _READERS.items() if kind in kinds), lambda name, values: values[-1]
    )


def _integer(name: str, values: list[str]) -> int:
    try:
        return int(values[-1])
    except ValueError:
        raise errors.BadParameter(name=name, why="it must be an integer.") from None


def _boolean(name: str, values: list[str]) -> bool:
    try:
        return _BOOLEANS[values[-1]]
    except KeyError:
        raise errors.BadParameter(name=name, why='it must be "true" or "false".') from None


def _single(name: str, values: list[str]) -> str:
    if len(values) > 1:
        raise errors.BadParameter(name=name, why="a filter may be given once.")
    return values[0]


_READERS: dict[type, Callable[[str, list[str]], Any]] = {
    int: _integer,
    bool: _boolean,
    list: lambda name, values: values[0].split(",") if len(values) == 1 else values,
}
