# SPDX-License-Identifier: Apache-2.0
"""What operators do with messages and claims: look at them, move and copy them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from zaqar_redis import errors, rules
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import ClaimSummary, MoveResult, Page, PeekedMessage, PeekPage
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.quota_enforcer import QuotaEnforcer
from zaqar_redis.storage.administration import Administration
from zaqar_redis.storage.contract import Driver

STATES = ("free", "claimed", "delayed", "expired")
#: Messages whose bodies one request searches; the caller goes on behind them.
_SEARCHED = 1000
#: Calls of the store by one request, each of which looks at some hundred messages.
_CALLS = 50


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
        """Returns messages whose body has the text *contains*, if given."""
        if state is not None and state not in STATES:
            raise errors.BadParameter(name="state", why=f"it must be one of {', '.join(STATES)}.")
        most = rules.limit(limit, self._limits.max_messages_per_page)

        def wanted(peeked: PeekedMessage) -> bool:
            return not contains or contains in peeked.message.body.decode()

        page: PeekPage = yield from self._peek(project, queue, state or "", marker, most, wanted)
        return page

    def _peek(
        self,
        project: str,
        queue: str,
        state: str,
        after: str | None,
        most: int,
        wanted: Callable[[PeekedMessage], bool],
    ) -> Steps[PeekPage]:
        """Returns up to *most* messages that are *wanted*, of a bounded number that it reads."""
        found: list[PeekedMessage] = []
        searched = 0
        for _ in range(_CALLS):
            page: PeekPage = yield self._store.peek(
                project, queue, state=state, after=after, limit=most - len(found)
            )
            decrypted = self._messages.decrypted(project, [each.message for each in page.items])
            shown = (
                msgspec.structs.replace(each, message=message)
                for each, message in zip(page.items, decrypted, strict=True)
            )
            found += filter(wanted, shown)
            searched += len(page.items)
            after = page.marker
            if not after or len(found) == most or searched >= _SEARCHED:
                break
        return PeekPage(items=found, marker=after or "")

    @verb
    def list_claims(
        self, project: str, queue: str, *, marker: str | None, limit: int | None
    ) -> Steps[Page[ClaimSummary]]:
        most = rules.limit(limit, self._limits.max_messages_per_page)
        page: Page[ClaimSummary] = yield self._store.list_claims(
            project, queue, after=marker or "", limit=most
        )
        return page

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

        Either those of *ids*, or the oldest free ones, at most *limit*.  Raises NotFound when
        there is no such target, and QuotaExceeded for copies.
        """
        self._check(queue, target, ids, limit, copy)
        by_target: dict[str, list[str]] = {}
        asked: Sequence[str] = ids or ()
        if target is not None and ids is not None:
            by_target[target] = list(ids)
        else:
            found = yield from self._chosen(project, queue, ids, limit, has_origin=target is None)
            asked = ids or [message_id for message_id, _ in found]
            for message_id, origin in found:
                by_target.setdefault(target or origin, []).append(message_id)
        moved: list[str] = []
        for name, chosen in by_target.items():
            if name == queue or (yield self._driver.queues.get(project, name)) is None:
                if target is not None:
                    raise errors.NotFound(why=f"Queue {name} does not exist. Create it first.")
                continue  # where it came from does not exist any more
            if copy:
                moved += yield from self._copy(project, queue, chosen, name)
            else:
                moved += yield self._store.move(
                    project, queue, chosen, target=name, restore=target is None
                )
        done = set(moved)
        return MoveResult(tuple(moved), tuple(each for each in asked if each not in done))

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
        most = self._limits.max_messages_per_page
        if ids is not None and not 1 <= len(ids) <= most:
            raise errors.BadRequest(why=f'"ids" must hold 1 to {most} ids.')
        if limit is not None:
            rules.within("limit", limit, 1, most)

    def _chosen(
        self,
        project: str,
        queue: str,
        ids: Sequence[str] | None,
        limit: int | None,
        *,
        has_origin: bool,
    ) -> Steps[Sequence[tuple[str, str]]]:
        """Returns id and origin of the messages to move; with *has_origin* only dead letters."""
        if ids is not None:
            records = yield self._driver.messages.get(project, queue, ids)
            return [(each.id, each.origin) for each in records if each.origin or not has_origin]

        def wanted(peeked: PeekedMessage) -> bool:
            return bool(peeked.message.origin) or not has_origin

        page = yield from self._peek(project, queue, "free", None, limit or 0, wanted)
        return [(each.message.id, each.message.origin) for each in page.items]

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
