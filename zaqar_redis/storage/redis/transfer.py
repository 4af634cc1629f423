# SPDX-License-Identifier: Apache-2.0
"""The transfer of queues from one Redis to another.

Messages are copied while the queue is in use; then it is frozen, and the present
state of each (its index, its claim, its expiry) follows in rank order.
"""

from __future__ import annotations

import itertools

import msgspec

from zaqar_redis import errors, formats
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Argument, Call, RedisCommand, Script, Steps, verb
from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.records import IMPORT_PREFIX, LockKind, MoveLock, Queue
from zaqar_redis.storage.redis import format_gate, identity
from zaqar_redis.storage.redis.queues import (
    add_to_list,
    order_format,
    queue_settings,
    remove_from_list,
)
from zaqar_redis.storage.redis.resource import RedisResource

_UNLOCK = Script("move_unlock")
_LOCK_MISSING = Script("move_lock_missing")
_BEGIN_IMPORT = Script("transfer_begin_import")
_ABORT_IMPORT = Script("transfer_abort_import")
_READ = Script("transfer_export_messages")
_WRITE = Script("transfer_import_messages")
_FREEZE = Script("transfer_freeze")
_INDEX = Script("transfer_export_index")
_PLACE = Script("transfer_import_index")
_TERMS = Script("transfer_export_terms")
_KEEP = Script("transfer_import_terms")
_SCAN = Script("transfer_export_records")
_REMEMBER = Script("transfer_import_records")
_SUBSCRIBE = Script("transfer_import_subscriptions")
_DELIVERIES = Script("transfer_export_deliveries")
_ENTER = Script("transfer_import_deliveries")
_PEND = Script("transfer_import_pending")
_REST = Script("transfer_import_rests")
_SETTINGS = Script("transfer_export_settings")
_COMPLETE = Script("transfer_import_settings")
_SEAL = Script("transfer_seal")
_TOMBSTONE = Script("transfer_tombstone")

#: Milliseconds for which the move lock of a moved queue stays: far longer than any
#: worker caches its route.
_TOMBSTONE_TTL_MS = 300 * 1000
#: Milliseconds for which a frozen queue waits for the mover's next step.
_MOVE_LOCK_TTL_MS = 10_000
#: Messages, claims or records in a chunk: a few milliseconds of Redis' time.
_PAGE = 1000
#: Bytes of messages after which a chunk is full: as many as 1000 small ones have, twice.
_PAGE_BYTES = 1024 * 1024
#: Entries for delivery in a chunk: some may have the messages of a large post.
_ENTRIES = 20
_NOT_IMPORTED = ("_priorities", "_group_mode", "_max_bytes")
#: Values of a message in the script's answer.
_INDEX_WIDTH = 6

#: Kinds of chunks of a frozen queue, in the order in which they come, and the keys
#: of those whose items expire on their own.
_TERM_KEYS = {
    "claims": ("leases", "claims"),
    "ledger": ("ledger_ends", "ledger"),
    "subscriptions": ("subscription_ends", "subscriptions"),
    "pending": ("pending_ends", "pending"),
}
#: Kinds that are records in generations: hashes that are copied as they are.
_RECORDS = (
    *("idempotency", "idempotency_old", "dead_letters", "dead_letters_old"),
    "delivery_states",
)
_KINDS = ("order", "rests", "index", *_TERM_KEYS, *_RECORDS, "deliveries", "settings")
_IMPORTS = {
    "messages": _WRITE,
    "subscriptions": _SUBSCRIBE,
    "pending": _PEND,
    "deliveries": _ENTER,
    "rests": _REST,
}
_AFTER = {kind: f"{next_kind}:0" for kind, next_kind in itertools.pairwise(_KINDS)}


class RedisTransfer(RedisResource):
    @verb
    def unlock(self, project: str, queue: str, move_lock: MoveLock) -> Steps[bool]:
        if move_lock.is_import:
            return False
        return bool((yield _UNLOCK(keys.of_queue(project, queue), lock=str(move_lock))))

    @verb
    def lock_missing(self, project: str, queue: str) -> Steps[bool]:
        locked = yield _LOCK_MISSING(
            keys.of_queue(project, queue), token=identity.new_claim(), ttl_ms=_TOMBSTONE_TTL_MS
        )
        return bool(locked)

    @verb
    def move_lock(self, project: str, queue: str) -> Steps[MoveLock | None]:
        lock = yield RedisCommand("GET", keys.of_queue(project, queue).move_lock)
        return MoveLock.parse((lock or b"").decode())

    @verb
    def reserve_epoch(self, project: str, queue: str, epoch: str, seconds: int) -> Steps[None]:
        key = keys.of_queue(project, queue).reserved_epoch
        yield RedisCommand("SET", key, epoch, "EX", seconds) if epoch else RedisCommand("DEL", key)

    @verb
    def begin_import(self, project: str, queue: str, token: str) -> Steps[bool]:
        return bool((yield _BEGIN_IMPORT(keys.of_queue(project, queue), token=token)))

    @verb
    def abort_import(self, project: str, queue: str, token: str) -> Steps[bool]:
        # No route here leads to a queue that comes from another installation.
        ttl_ms = 0 if token.startswith(IMPORT_PREFIX) else _TOMBSTONE_TTL_MS
        call = _ABORT_IMPORT(keys.of_queue(project, queue), token=token, ttl_ms=ttl_ms)
        return bool((yield call))

    @verb
    def export_messages(self, project: str, queue: str, after: int) -> Steps[TransferChunk]:
        of_queue = keys.of_queue(project, queue)
        page = yield _READ(of_queue, after=after, limit=_PAGE, bytes=_PAGE_BYTES)
        is_full = len(page) == 2 * _PAGE or sum(map(len, page[1::2])) >= _PAGE_BYTES
        last = page[-2].decode() if is_full else None
        return TransferChunk(kind="messages", items=page, after=after, next_cursor=last)

    @verb
    def freeze(self, project: str, queue: str, token: str) -> Steps[bool]:
        frozen = yield _FREEZE(keys.of_queue(project, queue), token=token, lease=_MOVE_LOCK_TTL_MS)
        if frozen < 0:
            raise errors.CannotMove(
                queue=queue, why="a write of Spark is being staged in it, for a day at most"
            )
        return bool(frozen)

    @verb
    def export_frozen(
        self, project: str, queue: str, token: str, copied_rank: int, at: str
    ) -> Steps[TransferChunk]:
        kind, _, position = (at or "order:0").partition(":")
        of_queue = keys.of_queue(project, queue)
        if kind == "settings":
            fields = yield _SETTINGS(of_queue, token=token, lease=_MOVE_LOCK_TTL_MS)
            return TransferChunk(kind=kind, items=fields)
        if kind == "order":
            found, turn = yield RedisCommand("HMGET", of_queue.queue, kind, "turn")
            items = [kind, found, *(["turn", turn] if turn else [])] if found else []
            return TransferChunk(kind=kind, items=items, next_cursor=_AFTER[kind])
        if kind == "rests":
            rests = yield RedisCommand(
                *("ZRANGEBYLEX", of_queue.groups, b"[\2", b"(\3", "LIMIT", int(position), _PAGE)
            )
            more = len(rests) == _PAGE
            next_cursor = f"{kind}:{int(position) + _PAGE}" if more else _AFTER[kind]
            return TransferChunk(kind=kind, items=rests, next_cursor=next_cursor)
        if kind == "deliveries":
            entries = yield _DELIVERIES(
                of_queue, token=token, lease=_MOVE_LOCK_TTL_MS, after=position, limit=_ENTRIES
            )
            more = len(entries) == 2 * _ENTRIES
            next_cursor = f"{kind}:{entries[-2].decode()}" if more else _AFTER[kind]
            return TransferChunk(kind=kind, items=entries, next_cursor=next_cursor)
        if kind in _RECORDS:
            cursor, records = yield _SCAN(
                keys.RecordKeys(of_queue, kind),
                token=token,
                lease=_MOVE_LOCK_TTL_MS,
                cursor=position,
                limit=_PAGE,
            )
            next_cursor = f"{kind}:{int(cursor)}" if int(cursor) else _AFTER[kind]
            return TransferChunk(kind=kind, items=records, next_cursor=next_cursor)
        call, width = _frozen_call(of_queue, kind, int(position), token, copied_rank)
        page = yield call
        next_cursor = _AFTER[kind]
        if len(page) == width * _PAGE:
            last = int(page[-width]) if kind == "index" else int(position) + _PAGE
            next_cursor = f"{kind}:{last}"
        return TransferChunk(kind=kind, items=page, after=int(position), next_cursor=next_cursor)

    @verb
    def import_chunk(
        self, project: str, queue: str, token: str, chunk: TransferChunk
    ) -> Steps[None]:
        of_queue = keys.of_queue(project, queue)
        items = chunk.items
        if chunk.kind == "index":
            more = (chunk.next_cursor or "").startswith("index:")
            upto: Argument = items[-_INDEX_WIDTH] if more else "+inf"
            yield _PLACE(
                of_queue, *items, now=self._now(), token=token, after=chunk.after, upto=upto
            )
        elif items and chunk.kind in ("order", "settings"):
            if chunk.kind == "order" and not (yield from _knows_order(items[1])):
                raise errors.CannotMove(
                    queue=queue,
                    why="it has priorities or groups, and older releases may work on that store: "
                    "once all are replaced, an operator runs zaqar-redis upgrade",
                )
            counts = chunk.kind == "settings" and b"bytes" in items[::2]
            if counts and not (yield from format_gate.knows(formats.BYTES)):
                raise errors.CannotMove(
                    queue=queue,
                    why='it has "_max_bytes", and older releases may work on that store: '
                    "once all are replaced, an operator runs zaqar-redis upgrade",
                )
            yield _COMPLETE(of_queue, *items, token=token)
        elif chunk.kind == "queue":
            yield _COMPLETE(of_queue, *_new(chunk.after, *items), token=token)
        elif items and chunk.kind in _IMPORTS:
            yield _IMPORTS[chunk.kind](of_queue, *items, token=token)
        elif items and chunk.kind in _RECORDS:
            yield _REMEMBER(keys.RecordKeys(of_queue, chunk.kind), *items, token=token)
        elif items:
            yield _KEEP(keys.TermKeys(of_queue, *_TERM_KEYS[chunk.kind]), *items, token=token)

    @verb
    def seal(self, project: str, queue: str, token: str) -> Steps[bool]:
        return bool((yield _SEAL(keys.of_queue(project, queue), token=token)))

    @verb
    def commit_import(self, project: str, queue: str, token: str) -> Steps[bool]:
        lock = MoveLock(LockKind.INTO, token)
        released = yield _UNLOCK(keys.of_queue(project, queue), lock=str(lock))
        yield from add_to_list(project, queue)
        return bool(released)

    @verb
    def epoch(self, project: str, queue: str) -> Steps[str]:
        found = yield RedisCommand("HGET", keys.of_queue(project, queue).queue, "epoch")
        return found.decode() if found else ""

    @verb
    def tombstone(self, project: str, queue: str, token: str) -> Steps[None]:
        yield _TOMBSTONE(keys.of_queue(project, queue), token=token, ttl_ms=_TOMBSTONE_TTL_MS)
        yield from remove_from_list(project, queue)


def _knows_order(field: Argument) -> Steps[bool]:
    order = field.decode() if isinstance(field, bytes) else str(field)
    return (yield from format_gate.knows(order_format(order)))


def _new(rank: int, queue: Queue, epoch: str = "", delivers: bool = False) -> list[Argument]:
    """Returns the fields of a queue from a store of another kind; without *epoch*, a new one.

    *delivers*: notifiers are to deliver to its subscriptions.
    """
    # As a time, as if it had been subscribed to at once: see subscription_create.lua.
    subscribed = ("subscribed", max(1, queue.created)) if delivers else ()
    return [
        *subscribed,
        *("epoch", epoch or identity.new_epoch(), "created", queue.created, "rank", rank),
        *("metadata", msgspec.json.encode(queue.metadata)),
        # Without an order, which would have to be known before the messages, and without a limit
        # of their bytes, which were not counted: the next change of the metadata sets both.
        *queue_settings(queue.name, queue.metadata | dict.fromkeys(_NOT_IMPORTED)),
    ]


def _frozen_call(
    of_queue: keys.QueueKeys, kind: str, position: int, token: str, copied_rank: int
) -> tuple[Call, int]:
    """Returns the call that reads the chunk, and how many values each of its items has."""
    if kind == "index":
        call = _INDEX(
            of_queue,
            token=token,
            lease=_MOVE_LOCK_TTL_MS,
            after=position,
            limit=_PAGE,
            copied_rank=copied_rank,
        )
        return call, _INDEX_WIDTH
    terms = keys.TermKeys(of_queue, *_TERM_KEYS[kind])
    return _TERMS(terms, token=token, lease=_MOVE_LOCK_TTL_MS, skip=position, limit=_PAGE), 3
