# SPDX-License-Identifier: Apache-2.0
"""What operators do with messages and claims: look at them, move and copy them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from zaqar_redis import errors, rules
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import (
    ClaimSummary,
    Message,
    Page,
    PeekedMessage,
    PeekPage,
    Queue,
    Record,
)
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.quota_enforcer import QuotaEnforcer
from zaqar_redis.storage.administration import Administration
from zaqar_redis.storage.contract import Driver

STATES = ("free", "claimed", "delayed", "expired")
#: Messages whose bodies one request searches; the caller goes on behind them.
_SEARCHED = 1000
#: Calls of the store by one request, each of which looks at some hundred messages.
_CALLS = 50
#: Messages that are read together to search them, and dead letters to see which can go back.
_PAGE = 100

#: RFC 8259, section 7; in a run, since two of them may be one character.
_ESCAPES = re.compile(r'(?:\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))+')


@dataclass
class _Chosen:
    """What a request moves, and what it leaves."""

    by_target: dict[str, list[str]] = field(default_factory=dict)
    #: of messages in `by_target`
    number: int = 0
    #: whether there is a queue, by its name
    exists: dict[str, bool] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    #: how many of these came from a queue that does not exist, by its name
    missing_origins: Counter[str] = field(default_factory=Counter)


class MoveResult(Record, frozen=True):
    """The ids of messages that were moved or copied, and of those that were left."""

    moved: tuple[str, ...]
    left: tuple[str, ...]
    #: how many of those that were left came from a queue that does not exist, by its name
    missing_origins: dict[str, int] = {}


class AdministrationService(ComposedVerbs):
    def __init__(
        self,
        driver: Driver,
        limits: rules.Limits,
        messages: MessageService,
        quotas: QuotaEnforcer | None = None,
    ) -> None:
        """*quotas*: None: copies are not limited."""
        self._driver = driver
        self._limits = limits
        self._messages = messages
        self._quotas = quotas

    @property
    def _store(self) -> Administration:
        if self._driver.administration is None:
            raise errors.BadRequest(
                why="The store of this service cannot show and move its messages."
            )
        return self._driver.administration

    @verb
    def peek(
        self,
        project: str,
        queue: str,
        *,
        state: str | None,
        marker: str | None,
        limit: int | None,
        contains: str | None,
    ) -> Steps[PeekPage]:
        """Returns messages whose body has the text *contains*, if given; see `has_text`."""
        if state is not None and state not in STATES:
            raise errors.BadParameter(name="state", why=f"it must be one of {', '.join(STATES)}.")
        most = rules.limit(limit, self._limits.max_messages_per_page)

        def has_it(peeked: PeekedMessage) -> bool:
            [message] = self._messages.decrypted(project, [peeked.message])
            return has_text(message.body, contains or "")

        wanted = has_it if contains else None
        page = yield from self._peek(project, queue, state or "", marker, most, wanted)
        decrypted = self._messages.decrypted(project, [each.message for each in page.items])
        shown = zip(page.items, decrypted, strict=True)
        return msgspec.structs.replace(
            page, items=[msgspec.structs.replace(each, message=message) for each, message in shown]
        )

    def _peek(
        self,
        project: str,
        queue: str,
        state: str,
        after: str | None,
        most: int,
        wanted: Callable[[PeekedMessage], bool] | None = None,
    ) -> Steps[PeekPage]:
        """Returns up to *most* messages that are *wanted*, None: all, of a bounded number."""
        found: list[PeekedMessage] = []
        searched = 0
        for _ in range(_CALLS):
            page: PeekPage = yield self._store.peek(
                project, queue, state=state, after=after, limit=_PAGE if wanted else most
            )
            found += filter(wanted, page.items)
            searched += len(page.items)
            after = page.marker
            if len(found) > most:
                after = found[most - 1].message.id
            if not after or len(found) >= most or searched >= _SEARCHED:
                break
        return PeekPage(items=found[:most], marker=after or "")

    def list_claims(
        self, project: str, queue: str, *, marker: str | None, limit: int | None
    ) -> Awaitable[Page[ClaimSummary]]:
        most = rules.limit(limit, self._limits.max_messages_per_page)
        return self._store.list_claims(project, queue, after=marker or "", limit=most)

    @verb
    def move(
        self,
        project: str,
        queue: str,
        *,
        target: str | None,
        ids: Sequence[str] | None,
        limit: int | None,
        copy: bool,
    ) -> Steps[MoveResult]:
        """Moves messages to *target*; None: each to the queue that it came from as a dead letter.

        Either those of *ids*, or the oldest free ones, at most *limit*.  Messages that have no
        queue to go back to are left, and do not count for the limit.  Raises NotFound when there
        is no such target, and QuotaExceeded for copies.
        """
        self._check(queue, target, ids, limit, copy)
        chosen = _Chosen()
        if target is None:
            yield from self._choose_dead_letters(project, queue, ids, limit, chosen)
        elif (yield self._driver.queues.get(project, target)) is None:
            raise errors.NotFound(why=f"Queue {target} does not exist. Create it first.")
        else:
            if ids is None:  # the oldest free ones
                page = yield from self._peek(project, queue, "free", None, limit or 0)
                ids = [each.message.id for each in page.items]
            chosen.by_target[target] = list(ids)
        moved: list[str] = []
        for name, wanted in chosen.by_target.items():
            if copy:
                moved += yield from self._copy(project, queue, wanted, name)
            else:
                moved += yield self._store.move(
                    project, queue, wanted, target=name, restore=target is None
                )
        done = set(moved)
        asked = (each for wanted in chosen.by_target.values() for each in wanted)
        left = [*(each for each in asked if each not in done), *chosen.left]
        return MoveResult(tuple(moved), tuple(left), dict(chosen.missing_origins))

    def _check(
        self,
        queue: str,
        target: str | None,
        ids: Sequence[str] | None,
        limit: int | None,
        copy: bool,
    ) -> None:
        """Raises BadRequest."""
        if (ids is None) == (limit is None):
            raise errors.BadRequest(why='Either "ids" or "limit" must be given, and not both.')
        if target == queue:
            raise errors.BadRequest(why=f'"queue" must be another queue than {queue}.')
        if copy and target is None:
            raise errors.BadRequest(why='"copy" needs "queue", the queue to copy to.')
        if target is not None:
            rules.queue_name(target)
        if ids is not None:
            rules.number_of_ids("ids", ids, self._limits)
        if limit is not None:
            rules.within("limit", limit, 1, self._limits.max_messages_per_page)

    def _choose_dead_letters(
        self,
        project: str,
        queue: str,
        ids: Sequence[str] | None,
        limit: int | None,
        chosen: _Chosen,
    ) -> Steps[None]:
        """Chooses those of *ids*, or the oldest free ones, that have a queue to go back to."""
        if ids is not None:
            found = yield self._driver.messages.get(project, queue, ids)
            yield from self._sort(project, queue, found, chosen, len(ids))
            known = {*chosen.left, *(id for each in chosen.by_target.values() for id in each)}
            chosen.left += [each for each in ids if each not in known]
            return
        after: str | None = None
        searched = 0
        for _ in range(_CALLS):
            page: PeekPage = yield self._store.peek(
                project, queue, state="free", after=after, limit=_PAGE
            )
            messages = [each.message for each in page.items]
            yield from self._sort(project, queue, messages, chosen, limit or 0)
            searched += len(messages)
            after = page.marker
            if not after or chosen.number == limit or searched >= _SEARCHED:
                return

    def _sort(
        self, project: str, queue: str, messages: Sequence[Message], chosen: _Chosen, most: int
    ) -> Steps[None]:
        """Adds messages to *chosen*, until that has *most* that can go back."""
        for message in messages:
            origin = message.origin
            if chosen.number == most:
                return
            if origin in ("", queue):  # no dead letter, or one that is back already
                continue
            if origin not in chosen.exists:
                found: Queue | None = yield self._driver.queues.get(project, origin)
                chosen.exists[origin] = found is not None
            if chosen.exists[origin]:
                chosen.by_target.setdefault(origin, []).append(message.id)
                chosen.number += 1
            else:
                chosen.missing_origins[origin] += 1
                chosen.left.append(message.id)

    def _copy(
        self, project: str, queue: str, ids: Sequence[str], target: str
    ) -> Steps[Sequence[str]]:
        quotas, meter = self._quotas, None
        if quotas is not None and quotas.limits_storage:
            meter = quotas.meters.get(project) or quotas.meter(project)
        if meter is None:
            copied: Sequence[str] = yield self._store.copy(project, queue, ids, target=target)
            return copied
        records = yield self._driver.messages.get(project, queue, ids)
        size = sum(len(each.body) for each in records)
        is_new = yield from meter.add(target, len(records), size)
        try:
            copied = yield self._store.copy(project, queue, ids, target=target)
        except BaseException:  # also when the client has left
            meter.take_back(target, len(records), size, is_new=is_new)
            raise
        return copied


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
