# SPDX-License-Identifier: Apache-2.0
"""Restores whole queues, with the ranks and times that their messages had.

The driver takes the move lock of the queue, tasks import messages under it, and the driver
releases it when all are imported: clients never see a part.  A lock that a dead driver left
is recognized by its token, and the next try begins anew under it; see storage/transfer.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from zaqar_redis import clock, errors
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.records import Queue
from zaqar_redis.spark.options import SourceOptions
from zaqar_redis.spark.stores import StoreConfig, StoreConnections, StoreLocation
from zaqar_redis.spark.writing import archived, rows
from zaqar_redis.spark.writing.archived import ArchivedMessage
from zaqar_redis.storage.move.queue_import import ImportObstacle, QueueImport
from zaqar_redis.storage.redis import identity
from zaqar_redis.storage.redis.bulk import ledger
from zaqar_redis.storage.redis.catalogue import RedisCatalogue
from zaqar_redis.storage.redis.transfer import RedisTransfer

#: Messages of one round trip: a few milliseconds of Redis' time.
_CHUNK_MESSAGES = 1000
#: Bytes of one round trip, for the same reason.
_CHUNK_BYTES = 4 * 1024 * 1024
#: Stands for a claim that has ended: only the claim count is used.
_ENDED_CLAIM_ID = "0" * 32
#: Options without a meaning here: columns replace them, or all or nothing is written.
_UNSUPPORTED_OPTIONS = ("delivery", "writeId", "ttl", "putSize", "maxMessageSize")


class NotRestored(Exception):
    """Nothing was restored; the text says why."""


@dataclass(frozen=True)
class RestorePlan:
    """A queue under its move lock; serialized to tasks."""

    config: StoreConfig
    queue: str
    location: StoreLocation
    #: of the move lock, unique to this try
    token: str
    #: the store's time in ms: messages that have expired by then are left out.  The same
    #: for all tries of a task, which then write the same messages.
    now: int
    #: 16 bytes of the client id, where rows have none
    client: bytes

    def opened(self, stores: StoreConnections) -> QueueImport:
        """Returns the import, over connections of this process."""
        transfer = RedisTransfer(stores.client(self.location.uri))
        return QueueImport(transfer, self.config.project, self.queue, self.token)


@dataclass
class RestoreCommitMessage(WriterCommitMessage):
    """What a task has imported."""

    rows: int = 0
    #: messages left out
    expired: int = 0
    #: the highest rank, expired ones included
    highest: int = 0
    #: the lowest time of creation, ms
    first: int | None = None
    #: at most two of the epochs that rows have
    epochs: frozenset[str | None] = frozenset()

    def record(self, message: ArchivedMessage, alive: bool) -> None:
        self.rows += alive
        self.expired += not alive
        self._widen(message.rank, message.created)
        if message.epoch not in self.epochs and len(self.epochs) < 2:
            self.epochs |= {message.epoch}

    def _widen(self, rank: int, created: int) -> None:
        self.highest = max(self.highest, rank)
        self.first = created if self.first is None else min(self.first, created)

    def add(self, other: RestoreCommitMessage) -> None:
        self.rows += other.rows
        self.expired += other.expired
        self.epochs |= other.epochs
        if other.first is not None:
            self._widen(other.highest, other.first)


def check_missing(stores: StoreConnections, queue: str) -> None:
    """Raises NotRestored when the queue exists, StoreUnavailable."""
    project = stores.config.project

    def exists(there: StoreLocation) -> bool:
        store = stores.client(there.uri)
        lock = RedisTransfer(store).move_lock(project, queue).run()
        # What a try left that died is no queue: the next one takes it over.
        is_part = lock is not None and lock.is_import
        return not is_part and bool(store.command("EXISTS", keys.of_queue(project, queue).queue))

    if stores.with_retry(queue, exists):
        raise _already(queue)


def _already(queue: str) -> NotRestored:
    return NotRestored(
        f'the queue "{queue}" exists already: delete it, or give the restored queue another name'
    )


def begin(config: StoreConfig, queue: str, client: bytes) -> RestorePlan:
    """Takes the move lock, and clears what an earlier try left.

    Raises NotRestored when the queue exists or is being moved, StoreUnavailable.
    """
    with StoreConnections(config) as stores:
        location = stores.location(queue, make=True)
        store = stores.client(location.uri)
        restore = QueueImport(RedisTransfer(store), config.project, queue)
        obstacle = restore.begin().run()
        if obstacle is ImportObstacle.BEING_MOVED:
            raise NotRestored(f'the queue "{queue}" is being moved to another store')
        if obstacle is ImportObstacle.EXISTS:
            raise _already(queue)
        seconds, microseconds = store.command("TIME")
        now = int(seconds) * 1000 + int(microseconds) // 1000
    return RestorePlan(config, queue, location, restore.token, now, client)


def write(plan: RestorePlan, batches: Iterable[pa.RecordBatch]) -> RestoreCommitMessage:
    """Imports the rows of one task.  Idempotent for the same rows.

    Raises rows.BadRow, StoreUnavailable, and MoveLocked when another try has begun.
    """
    written = RestoreCommitMessage()
    with StoreConnections(plan.config) as stores:
        restore = plan.opened(stores)
        alive = _alive(plan, batches, written)
        for chunk in rows.sized_chunks(alive, _CHUNK_MESSAGES, _CHUNK_BYTES):
            items = [item for message in chunk for item in _chunk_items(message, plan.now)]
            # An interval without ranks: whatever else the queue holds stays, in any order.
            last = chunk[-1].rank
            part = TransferChunk(kind="index", items=items, after=last, next_cursor="index:")
            restore.add(part).run()
    return written


def _alive(
    plan: RestorePlan, batches: Iterable[pa.RecordBatch], written: RestoreCommitMessage
) -> Iterator[ArchivedMessage]:
    for batch in batches:
        for message in archived.messages(batch, plan.client):
            alive = message.expires > plan.now
            written.record(message, alive)
            if alive:
                yield message


def _chunk_items(message: ArchivedMessage, now: int) -> tuple[bytes | str | int, ...]:
    """Returns rank, expiry, end of the hold, end of the delay, hold, envelope."""
    delayed_until = message.created + message.delay * 1000
    front = envelope.front(message.created, message.expires, message.ttl, message.delay)
    return (
        message.rank,
        message.expires,
        "",
        delayed_until if delayed_until > now else "",
        f"{_ENDED_CLAIM_ID}{message.claims}" if message.claims else "",
        front + message.tail,
    )


def finish(
    plan: RestorePlan, done: Iterable[RestoreCommitMessage], name: str = ""
) -> RestoreCommitMessage:
    """Releases the move lock; returns what all tasks imported, recorded under *name* if given.

    Raises NotRestored, and StoreUnavailable: then call `abort_restore`.
    """
    total = RestoreCommitMessage()
    for each in done:
        total.add(each)
    project, queue = plan.config.project, plan.queue
    with StoreConnections(plan.config) as stores:
        client = stores.client(plan.location.uri)
        stored = client.command("ZCARD", keys.of_queue(project, queue).messages)
        if stored != total.rows:
            raise NotRestored(
                f'the {total.rows} rows for the queue "{queue}" have only {stored} ranks: are they '
                "of several epochs, or twice in their source?"
            )
        restore = plan.opened(stores)
        # Ids are those that the messages had, if all are of one epoch.
        epoch = next(iter(total.epochs)) if len(total.epochs) == 1 else None
        epoch = epoch or identity.new_epoch()
        if name:
            items = ledger.ledger_entry(name, epoch, total.rows, plan.now)
            restore.add(TransferChunk(kind="ledger", items=items)).run()
        created = plan.now if total.first is None else total.first
        record = Queue(name=queue, metadata={}, created=created)
        restore.add(TransferChunk(kind="queue", items=[record, epoch], after=total.highest)).run()
        restore.commit().run()
    return total


def abort_restore(plan: RestorePlan) -> None:
    """Clears what was imported.  If the store is unreachable, the next try does it."""
    project, queue = plan.config.project, plan.queue
    with contextlib.suppress(errors.Unavailable), StoreConnections(plan.config) as stores:
        if plan.opened(stores).abort().run():
            control = stores.client(plan.config.control_uri)
            RedisCatalogue(control, clock.store).deleted(project, queue).run()


def restored_count(stores: StoreConnections, queue: str, name: str) -> int | None:
    """Returns how many messages the restore *name* imported; None: it restored no such queue.

    Raises StoreUnavailable.
    """

    def fetch(location: StoreLocation) -> int | None:
        entries = ledger.RedisLedger(stores.client(location.uri), clock.store)
        try:
            found = entries.last(stores.config.project, queue, name).run()
        except errors.MoveLocked as met:
            if met.move_lock is not None and met.move_lock.is_import:
                return None  # a try that died, or is still running
            raise
        return found[1] if found else None

    return stores.with_retry(queue, fetch)


class RestoreWriter(DataSourceArrowWriter):
    """A batch write with the option *preserve*."""

    def __init__(self, plan: RestorePlan) -> None:
        self._restore = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RestoreCommitMessage:
        return write(self._restore, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        try:
            finish(
                self._restore, [each for each in messages if isinstance(each, RestoreCommitMessage)]
            )
        except NotRestored:
            abort_restore(self._restore)
            raise

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort_restore(self._restore)


def writer(
    config: StoreConfig, options: SourceOptions, schema: StructType, overwrite: bool
) -> RestoreWriter:
    """Begins a restore; returns its writer.  Raises BadConfiguration."""
    if overwrite:
        raise errors.BadConfiguration("a queue is restored with mode append")
    if options["queue"] is None:
        raise errors.BadConfiguration('option "queue" must be given with preserve')
    options.none_of(_UNSUPPORTED_OPTIONS, "with preserve")
    archived.checked_columns(schema)
    try:
        return RestoreWriter(
            begin(config, options["queue"], envelope.client_bytes(options["clientId"]))
        )
    except NotRestored as error:
        raise errors.BadConfiguration(f'option "preserve": {error}') from error
