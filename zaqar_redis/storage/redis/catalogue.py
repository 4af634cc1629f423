# SPDX-License-Identifier: Apache-2.0
"""The catalogue in Redis: the pool of each queue, and moves from pool to pool."""

from __future__ import annotations

from collections.abc import Sequence

from zaqar_redis import errors
from zaqar_redis.keyspace import control_keys, keys
from zaqar_redis.keyspace.script import RedisCommand, Script, Steps, verb
from zaqar_redis.pool_records import CatalogueEntry, Move, QueueLocation
from zaqar_redis.records import Page
from zaqar_redis.rules import is_topic
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.redis import identity
from zaqar_redis.storage.redis.resource import RedisResource

_PUT = Script("catalogue_put")
_LOCATE = Script("catalogue_locate")
_RESERVE_EPOCH = Script("catalogue_reserve_epoch")
_ASSIGN = Script("catalogue_assign")
_MARK_DELETED = Script("catalogue_mark_deleted")
_DELETED = Script("catalogue_deleted")
_RELEASE = Script("catalogue_release")
_COUNT = Script("pool_count")
_BEGIN = Script("move_begin")
_COMMIT = Script("move_commit")
_WITHDRAW = Script("move_withdraw")
_END = Script("move_end")

#: Seconds for which a reserved epoch is kept: as long as in the stores.
_RESERVED_EPOCH_TTL_SECONDS = 86_400


class RedisCatalogue(RedisResource):
    @verb
    def locate(self, project: str, queue: str) -> Steps[QueueLocation]:
        entry = keys.entry(project, queue)
        pool, move, deleted, reserved_epoch = yield _LOCATE(
            control_keys.EntryKeys(entry), queue=entry
        )
        return QueueLocation(
            pool=pool.decode() if pool is not None else None,
            move=_move(move) if move is not None else None,
            deleted=deleted is not None,
            reserved_epoch=(reserved_epoch or b"").decode(),
        )

    @verb
    def reserve_epoch(self, project: str, queue: str) -> Steps[QueueLocation]:
        entry = keys.entry(project, queue)
        pool, *epoch = yield _RESERVE_EPOCH(
            control_keys.EntryKeys(entry),
            queue=entry,
            epoch=identity.new_epoch(),
            kept=_RESERVED_EPOCH_TTL_SECONDS,
        )
        if pool is not None:
            return QueueLocation(pool.decode())
        return QueueLocation(None, reserved_epoch=epoch[0].decode())

    @verb
    def assign(
        self, project: str, queue: str, pool: str, version: int, expected_epoch: str | None = None
    ) -> Steps[str | None]:
        entry = keys.entry(project, queue)
        current_pool = yield _ASSIGN(
            control_keys.CatalogueKeys(project, pool, queue=entry),
            queue=entry,
            pool=pool,
            known=version,
            expected_epoch="*" if expected_epoch is None else expected_epoch,
        )
        return current_pool.decode() if current_pool is not None else None

    @verb
    def put(self, project: str, queue: str, pool: str) -> Steps[None]:
        entry = keys.entry(project, queue)
        done = 0
        while not done:
            current_pool, *_ = yield _LOCATE(control_keys.EntryKeys(entry), queue=entry)
            origin = "" if current_pool is None else current_pool.decode()
            done = yield _PUT(
                control_keys.CatalogueKeys(project, pool, origin, entry),
                queue=entry,
                pool=pool,
                origin=origin,
            )

    @verb
    def deleted(self, project: str, queue: str) -> Steps[None]:
        entry = keys.entry(project, queue)
        yield _MARK_DELETED(control_keys.EntryKeys(entry), now=self._now(), queue=entry)

    @verb
    def alive(self, project: str, queue: str) -> Steps[None]:
        yield RedisCommand("ZREM", control_keys.CONTROL.deleted, keys.entry(project, queue))

    @verb
    def deleted_since(self, age: int, skip: int, limit: int) -> Steps[Sequence[CatalogueEntry]]:
        flat = yield _DELETED(
            control_keys.CONTROL, now=self._now(), age=age, after=skip, limit=limit
        )
        return [_placed(entry, pool) for entry, pool in zip(flat[::2], flat[1::2], strict=True)]

    @verb
    def release(self, project: str, queue: str, pool: str) -> Steps[bool]:
        done = yield _RELEASE(
            control_keys.CatalogueKeys(project, pool), queue=keys.entry(project, queue), pool=pool
        )
        return bool(done)

    @verb
    def pools_of(self, project: str) -> Steps[dict[str, int]]:
        flat = yield RedisCommand(
            "HGETALL", control_keys.CatalogueKeys(project, DEFAULT_POOL).project
        )
        return {
            pool.decode(): int(count) for pool, count in zip(flat[::2], flat[1::2], strict=True)
        }

    @verb
    def queues_of(self, pool: str, after: str, limit: int) -> Steps[Sequence[CatalogueEntry]]:
        entries = yield RedisCommand.page(control_keys.pool_queues(pool), after, limit)
        return [_placed(entry, pool.encode()) for entry in entries]

    @verb
    def names(
        self, project: str, pool: str, after: str, limit: int, *, topics: bool = False
    ) -> Steps[Page[str]]:
        prefix = keys.entry(project, "")
        found = yield RedisCommand.page(
            control_keys.pool_queues(pool), keys.entry(project, after).decode(), limit
        )
        entries = [entry for entry in found if entry.startswith(prefix)]
        if not entries:
            return Page(items=())
        deleted = yield RedisCommand("ZMSCORE", control_keys.CONTROL.deleted, *entries)
        names = [keys.queue_of(entry)[1] for entry in entries]
        return Page(
            items=[
                name
                for name, at in zip(names, deleted, strict=True)
                if at is None and is_topic(name) is topics
            ],
            marker=names[-1] if len(entries) == limit else "",
        )

    @verb
    def count(self, pool: str) -> Steps[int]:
        return int((yield _COUNT(control_keys.CatalogueKeys("", pool), name=pool)))

    @verb
    def begin(self, project: str, queue: str, move: Move) -> Steps[Move | None]:
        outcome, *about = yield _BEGIN(
            control_keys.CatalogueKeys(project, move.source),
            queue=keys.entry(project, queue),
            token=move.token,
            source=move.source,
            target=move.target,
            default_pool=DEFAULT_POOL,
        )
        if outcome == b"elsewhere":
            raise errors.QueueNotInPool(queue=queue, pool=about[0].decode())
        if outcome == b"target":
            raise errors.NoSuchPool(name=move.target)
        return _move(about[0]) if outcome == b"earlier" else None

    @verb
    def commit(self, project: str, queue: str, move: Move) -> Steps[bool]:
        done = yield _COMMIT(
            control_keys.CatalogueKeys(project, move.target, move.source),
            queue=keys.entry(project, queue),
            token=move.token,
        )
        return bool(done)

    @verb
    def withdraw(self, project: str, queue: str, token: str) -> Steps[bool]:
        return bool(
            (yield _WITHDRAW(control_keys.CONTROL, queue=keys.entry(project, queue), token=token))
        )

    @verb
    def end(self, project: str, queue: str, token: str) -> Steps[None]:
        yield _END(control_keys.CONTROL, queue=keys.entry(project, queue), token=token)

    @verb
    def moves(self) -> Steps[Sequence[tuple[CatalogueEntry, Move]]]:
        flat = yield RedisCommand("HGETALL", control_keys.CONTROL.moves)
        found = []
        for entry, stored in zip(flat[::2], flat[1::2], strict=True):
            move = _move(stored)
            found.append((_placed(entry, move.source.encode()), move))
        return found


def _move(stored: bytes) -> Move:
    token, source, target, committed = stored.decode().split(" ")
    return Move(token=token, source=source, target=target, committed=committed == "1")


def _placed(entry: bytes, pool: bytes) -> CatalogueEntry:
    project, queue = keys.queue_of(entry)
    return CatalogueEntry(project=project, queue=queue, pool=pool.decode(), marker=entry.decode())
