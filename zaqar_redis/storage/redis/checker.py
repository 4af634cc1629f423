# SPDX-License-Identifier: Apache-2.0
"""The checker: reads all keys of a store and reports inconsistencies.

Every verb leaves a queue consistent, so findings have other causes: keys that Redis
evicted, that somebody edited, or that a copy of the data missed.  Only what a process
left behind that died comes from this service, and is harmless.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from zaqar_redis import errors
from zaqar_redis.check_records import CheckResult, Finding
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import Script, Verb
from zaqar_redis.records import LockKind, MoveLock
from zaqar_redis.storage.contract import ProgressCallback, no_progress
from zaqar_redis.storage.redis import identity
from zaqar_redis.storage.redis.figures import RedisFigures
from zaqar_redis.storage.redis.queues import add_to_list, remove_from_list
from zaqar_redis.storage.redis.scanning import scan

_KINDS = Script("check_kinds")
_MESSAGES = Script("check_messages")
_STRAYS = Script("check_strays")
_TERMS = Script("check_terms")
_SUBSCRIPTIONS = Script("check_subscriptions")
_DELIVERIES = Script("check_deliveries")
_QUEUE = Script("check_queue")

#: Messages in one script: milliseconds.
_PAGE = 500

#: Keys that a message should be in besides that of all messages.  Bodies come first, because
#: messages may be restored from them; then groups, which others may be held up by.
_PARTS = ("bodies", "groups", "ready", "claimed", "delayed", "expiry", "holds", "order")
_TERM_KEYS = (("leases", "claims"), ("ledger_ends", "ledger"))
_SUBSCRIBED = ("subscriptions", "subscribers", "subscription_ids", "subscription_ends")
#: The records first: what the others have is removed when there is none.
_PENDING = ("pending", "pending_ids", "pending_due", "pending_ends")

#: By the scripts' name of a finding: its text, and whether it can be repaired.
_TEXTS = {
    "body": ("{count} messages have no body; they are lost", True),
    "bytes": ("the bytes of its messages are counted wrong", True),
    "delivery": ("notifiers do not know when to deliver its messages", True),
    "due": ("the sweeper does not know when to sweep it", True),
    "envelope": ("{count} messages cannot be read", False),
    "expiry": ("{count} messages expire at another time than stored in them", True),
    "generation": ("{count} sets of idempotency records have no expiry time", True),
    "head": ("metadata and settings are lost; messages get other ids", True),
    "hold": ("{count} claimed messages are held by no claim", True),
    "message": ("{count} messages are stored, but not in the queue", True),
    "nowhere": ("{count} messages are neither claimable nor claimed nor delayed", True),
    "order": ("{count} messages are out of order", True),
    "pending": ("{count} times, keys of pending deliveries do not agree", True),
    "rank": ("the next messages would get the ranks of others", True),
    "stray": ("{count} entries are of messages that do not exist", True),
    "subscribed": ("its messages are not delivered to its subscriptions", True),
    "subscriber": ("{count} subscriptions could not be found by name or in order", True),
    "subscription": ("{count} subscriptions are incomplete", True),
    "term": ("{count} claims or ledger entries lack their expiry time, or the reverse", True),
    "twice": ("{count} messages are in two states at once", True),
}


class RedisChecker:
    def __init__(self, client: AsyncClient, figures: RedisFigures, now: Clock) -> None:
        self._client = client
        self._figures = figures
        self._now = now

    async def check(
        self, repair: bool, on_progress: ProgressCallback = no_progress
    ) -> AsyncIterator[CheckResult]:
        """Yields every queue with its findings, and unnamed those that belong to no queue."""
        lost: set[bytes] = set()
        async for page in scan(self._client, keys.EVERYTHING):
            queues = {tag for key in page if (tag := keys.queue_tag(key))}
            for tag in queues:
                project, queue = keys.queue_of(tag)
                has_queue_key = keys.of_queue(project, queue).queue in page
                # The other keys of a queue are checked with it, whatever page has it.
                if not has_queue_key and (tag in lost or await self._exists(project, queue)):
                    continue
                if not has_queue_key:
                    lost.add(tag)
                checked = await self._checked(project, queue, repair, on_progress)
                if checked is not None:
                    yield checked
            for key in page:
                if not keys.queue_tag(key) and not keys.is_service_key(key):
                    what = f"the key {key.decode(errors='replace')} does not belong to this service"
                    yield CheckResult(findings=(Finding(what=what),))
        async for project, names in self._figures.content():
            for name in names:
                if not await self._exists(project, name):
                    if repair:
                        await Verb(self._client, remove_from_list(project, name))
                    what = "it is listed, but does not exist"
                    finding = Finding(what=what, damage=False, mended=repair)
                    yield CheckResult(project=project, queue=name, findings=(finding,))

    async def _exists(self, project: str, queue: str) -> bool:
        return bool(await self._client.command("EXISTS", keys.of_queue(project, queue).queue))

    async def _checked(
        self, project: str, queue: str, repair: bool, on_progress: ProgressCallback
    ) -> CheckResult | None:
        """Returns a checked queue; None: it does not exist any more."""
        of_queue = keys.of_queue(project, queue)
        move_lock, exists, *wrong = await self._client.call(_KINDS(of_queue))
        checked = CheckResult(
            project=project,
            queue=queue,
            move_lock=MoveLock.parse(move_lock.decode()),
            exists=bool(exists),
        )
        if wrong:
            what = f"these keys are not of their type: {b', '.join(wrong).decode()}"
            return checked.with_(Finding(what=what))
        try:
            messages, found = await self._content(of_queue, repair, partial(on_progress, queue))
            if exists:
                found += await self._listed(project, queue, repair)
        except errors.MoveLocked:
            if checked.move_lock is None or checked.move_lock.kind is not LockKind.OUT:
                return checked  # it is in another store: its mover has to settle that
            return checked.with_(Finding(what="it is being moved, and was not read", damage=False))
        return checked.with_(*found, messages=messages)

    async def _content(
        self, of_queue: keys.QueueKeys, repair: bool, on_page: Callable[[int], None]
    ) -> tuple[int, list[Finding]]:
        call = self._client.call
        found: Counter[str] = Counter()
        flag = int(repair)

        async def scan(script: Script, of: object, **what: str) -> None:
            cursor: Any = b"0"
            while True:
                request = script(of, cursor=cursor, limit=_PAGE, repair=flag, **what)
                cursor, number, counts = await call(request)
                _count(found, counts)
                on_page(number)
                if cursor == b"0":
                    return

        for which in _PARTS[:2]:
            await scan(_STRAYS, of_queue, which=which)
        messages, after = 0, b"-inf"
        while after:
            after, number, counts = await call(
                _MESSAGES(of_queue, now=self._now(), after=after, limit=_PAGE, repair=flag)
            )
            messages += number
            _count(found, counts)
            on_page(number)
        for which in _PARTS[2:]:
            await scan(_STRAYS, of_queue, which=which)
        for names in _TERM_KEYS:
            for side in ("terms", "things"):
                await scan(_TERMS, keys.TermKeys(of_queue, *names), side=side)
        for which in _SUBSCRIBED:
            await scan(_SUBSCRIPTIONS, of_queue, which=which)
        for which in _PENDING:
            await scan(_DELIVERIES, of_queue, which=which)
        counts = await call(
            _QUEUE(of_queue, now=self._now(), epoch=identity.new_epoch(), repair=flag)
        )
        _count(found, counts)
        return messages, [_finding(what, count, repair) for what, count in sorted(found.items())]

    async def _listed(self, project: str, queue: str, repair: bool) -> list[Finding]:
        listing = keys.of_project(project).list_of(queue)
        if await self._client.command("ZSCORE", listing, queue) is not None:
            return []
        if repair:
            await Verb(self._client, add_to_list(project, queue))
        return [Finding(what="it is not listed", damage=False, mended=repair)]


def _count(found: Counter[str], counts: Sequence[Any]) -> None:
    for what, times in zip(counts[::2], counts[1::2], strict=True):
        found[what.decode()] += times


def _finding(what: str, count: int, repair: bool) -> Finding:
    text, mendable = _TEXTS[what]
    return Finding(what=text.format(count=count), mended=repair and mendable)
