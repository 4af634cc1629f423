# SPDX-License-Identifier: Apache-2.0
"""Queues that move from one Redis to another.

Messages are copied while the queue is in use; then it is frozen, and what has
become of each since (its place, its claims, its expiry) follows in rank order.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Argument, Call, Script, Steps, verb
from zaqar_redis.records import Portion, Queue
from zaqar_redis.storage.drivers.redis import identity
from zaqar_redis.storage.drivers.redis.queues import enlist, settings_of, unlist
from zaqar_redis.storage.transfer import IMPORT

_OPEN = Script("gate_open")
_CLOSE = Script("gate_close")
_GATE = Script("gate_get")
_PROMISE = Script("transfer_promise")
_STAGE = Script("transfer_stage")
_DISCARD = Script("transfer_discard")
_READ = Script("transfer_read")
_WRITE = Script("transfer_write")
_FREEZE = Script("transfer_freeze")
_INDEX = Script("transfer_index")
_PLACE = Script("transfer_place")
_TERMS = Script("transfer_terms")
_KEEP = Script("transfer_keep")
_SCAN = Script("transfer_scan")
_REMEMBER = Script("transfer_remember")
_SUBSCRIBE = Script("transfer_subscribe")
_SETTINGS = Script("transfer_settings")
_COMPLETE = Script("transfer_complete")
_SEAL = Script("transfer_seal")
_RETIRE = Script("transfer_retire")

#: Milliseconds for which a queue that left is remembered: far longer than any
#: worker believes what it knows of where queues live.
_CLOSED_FOR = 300 * 1000
#: Milliseconds for which a frozen queue waits for the mover's next step.
_LEASE = 10_000
#: Messages, claims or records in a portion: a few milliseconds of Redis' time.
_PAGE = 1000
#: Values of a message in the script's answer.
_INDEX_WIDTH = 6

#: Kinds of portions of a frozen queue, in the order in which they come, and the keys
#: of those that are terms.
_TERM_KEYS = {
    "claims": ("leases", "claims"),
    "ledger": ("ledger_ends", "ledger"),
    "subscriptions": ("subscription_ends", "subscriptions"),
}
#: Kinds that are records in generations: hashes which are copied as they are.
_RECORDS = ("idempotency", "idempotency_old", "letters", "letters_old")
_KINDS = ("index", *_TERM_KEYS, *_RECORDS, "settings")
_AFTER = {kind: f"{following}:0" for kind, following in itertools.pairwise(_KINDS)}


class Transfer:
    def __init__(self, client: Any) -> None:
        self.client = client

    @verb
    def open(self, project: str, queue: str, gate: str) -> Steps[bool]:
        if gate.startswith(f"into:{IMPORT}"):
            return False
        return bool((yield _OPEN(keys.of_queue(project, queue), shut=gate)))

    @verb
    def close(self, project: str, queue: str) -> Steps[bool]:
        closed = yield _CLOSE(
            keys.of_queue(project, queue), token=identity.new_claim(), life=_CLOSED_FOR
        )
        return bool(closed)

    @verb
    def gate(self, project: str, queue: str) -> Steps[str]:
        shut = yield _GATE(keys.of_queue(project, queue))
        return (shut or b"").decode()

    @verb
    def promise(self, project: str, queue: str, epoch: str, seconds: int) -> Steps[None]:
        yield _PROMISE(keys.of_queue(project, queue), epoch=epoch, kept=seconds)

    @verb
    def stage(self, project: str, queue: str, token: str) -> Steps[bool]:
        return bool((yield _STAGE(keys.of_queue(project, queue), token=token)))

    @verb
    def discard(self, project: str, queue: str, token: str) -> Steps[None]:
        # Of a queue from another installation, nobody here remembers that it was here.
        life = 0 if token.startswith(IMPORT) else _CLOSED_FOR
        yield _DISCARD(keys.of_queue(project, queue), token=token, life=life)

    @verb
    def live(self, project: str, queue: str, after: int) -> Steps[Portion]:
        page = yield _READ(keys.of_queue(project, queue), after=after, limit=_PAGE)
        last = page[-2].decode() if len(page) == 2 * _PAGE else None
        return Portion(kind="messages", items=page, after=after, following=last)

    @verb
    def freeze(self, project: str, queue: str, token: str) -> Steps[bool]:
        frozen = yield _FREEZE(keys.of_queue(project, queue), token=token, lease=_LEASE)
        if frozen < 0:
            raise errors.CannotMove(
                queue=queue, why="a write of Spark is being staged in it, for a day at most"
            )
        return bool(frozen)

    @verb
    def frozen(self, project: str, queue: str, token: str, staged: int, at: str) -> Steps[Portion]:
        kind, _, place = (at or "index:0").partition(":")
        of_queue = keys.of_queue(project, queue)
        if kind == "settings":
            fields = yield _SETTINGS(of_queue, token=token, lease=_LEASE)
            return Portion(kind=kind, items=fields)
        if kind in _RECORDS:
            cursor, records = yield _SCAN(
                keys.RecordKeys(of_queue, kind),
                token=token,
                lease=_LEASE,
                cursor=place,
                limit=_PAGE,
            )
            following = f"{kind}:{int(cursor)}" if int(cursor) else _AFTER[kind]
            return Portion(kind=kind, items=records, following=following)
        call, width = _frozen_call(of_queue, kind, int(place), token, staged)
        page = yield call
        following = _AFTER[kind]
        if len(page) == width * _PAGE:
            last = int(page[-width]) if kind == "index" else int(place) + _PAGE
            following = f"{kind}:{last}"
        return Portion(kind=kind, items=page, after=int(place), following=following)

    @verb
    def take_in(self, project: str, queue: str, token: str, portion: Portion) -> Steps[None]:
        of_queue = keys.of_queue(project, queue)
        items = portion.items
        if portion.kind == "index":
            more = (portion.following or "").startswith("index:")
            upto: Argument = items[-_INDEX_WIDTH] if more else "+inf"
            yield _PLACE(of_queue, *items, token=token, after=portion.after, upto=upto)
        elif portion.kind == "settings":
            yield _COMPLETE(of_queue, *items, token=token)
        elif portion.kind == "queue":
            yield _COMPLETE(of_queue, *_new(portion.after, *items), token=token)
        elif items and portion.kind == "messages":
            yield _WRITE(of_queue, *items, token=token)
        elif items and portion.kind == "subscriptions":
            yield _SUBSCRIBE(of_queue, *items, token=token)
        elif items and portion.kind in _RECORDS:
            yield _REMEMBER(keys.RecordKeys(of_queue, portion.kind), *items, token=token)
        elif items:
            yield _KEEP(keys.TermKeys(of_queue, *_TERM_KEYS[portion.kind]), *items, token=token)

    @verb
    def seal(self, project: str, queue: str, token: str) -> Steps[bool]:
        return bool((yield _SEAL(keys.of_queue(project, queue), token=token)))

    @verb
    def welcome(self, project: str, queue: str, token: str) -> Steps[None]:
        yield _OPEN(keys.of_queue(project, queue), shut=f"into:{token}")
        yield from enlist(project, queue)

    @verb
    def retire(self, project: str, queue: str, token: str) -> Steps[None]:
        yield _RETIRE(keys.of_queue(project, queue), token=token, life=_CLOSED_FOR)
        yield from unlist(project, queue)


def _new(rank: int, queue: Queue, epoch: str = "") -> list[Argument]:
    """What a queue knows of itself that is from no store of ours; without an epoch, a new one."""
    return [
        *("epoch", epoch or identity.new_epoch(), "created", queue.created, "rank", rank),
        *("metadata", msgspec.json.encode(queue.metadata)),
        *settings_of(queue.name, queue.metadata),
    ]


def _frozen_call(
    of_queue: keys.QueueKeys, kind: str, place: int, token: str, staged: int
) -> tuple[Call, int]:
    """What reads the portion, and how many values each thing in it has."""
    if kind == "index":
        call = _INDEX(of_queue, token=token, lease=_LEASE, after=place, limit=_PAGE, staged=staged)
        return call, _INDEX_WIDTH
    terms = keys.TermKeys(of_queue, *_TERM_KEYS[kind])
    return _TERMS(terms, token=token, lease=_LEASE, skip=place, limit=_PAGE), 3
