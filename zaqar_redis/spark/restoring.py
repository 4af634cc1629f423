# SPDX-License-Identifier: Apache-2.0
"""Queues that are restored whole, with the ranks and times that their messages had.

The driver shuts a gate before the queue, tasks put messages behind it, and the driver
opens it when all are there: nobody sees a part.  A gate that a dead driver left is known
by its token, and the next try begins anew behind it; see storage/transfer.py.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from zaqar_redis import clock, errors
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.records import Portion, Queue
from zaqar_redis.spark import archived
from zaqar_redis.spark.archived import Message
from zaqar_redis.spark.options import Options
from zaqar_redis.spark.stores import Place, Stores, Where
from zaqar_redis.storage.drivers.redis import identity, ledger
from zaqar_redis.storage.drivers.redis.control import Catalogue
from zaqar_redis.storage.drivers.redis.transfer import Transfer
from zaqar_redis.storage.transfer import IMPORT

#: Messages of one trip: a few milliseconds of Redis' time.
_PORTION = 1000
#: Bytes of one trip, for the same reason.
_PORTION_BYTES = 4 * 1024 * 1024
#: Stands for a claim that has ended: only its count is of use.
_NOBODY = "0" * 32
#: Options that mean nothing here: rows say it, or all or nothing is written.
_POINTLESS = ("delivery", "writeId", "ttl", "putSize", "maxMessageSize")


class NotRestored(Exception):
    """Nothing was restored; the text says why."""


@dataclass(frozen=True)
class Restore:
    """A queue behind its gate; it travels to tasks."""

    where: Where
    queue: str
    place: Place
    #: of the gate, this try's own
    token: str
    #: the store's time in ms: what has expired by then is left out.  The same for all
    #: tries of a task, which put a message to the same place then.
    now: int
    #: 16 bytes that stand for who posts, where rows do not say
    client: bytes


@dataclass
class Restored(WriterCommitMessage):
    """What a task has put."""

    rows: int = 0
    #: left out
    expired: int = 0
    #: the highest rank, expired ones included
    highest: int = 0
    #: the lowest time of creation, ms
    first: int | None = None
    #: at most two of those that there were
    epochs: frozenset[str | None] = frozenset()

    def note(self, message: Message, alive: bool) -> None:
        self.rows += alive
        self.expired += not alive
        self._widen(message.rank, message.created)
        if message.epoch not in self.epochs and len(self.epochs) < 2:
            self.epochs |= {message.epoch}

    def _widen(self, rank: int, created: int) -> None:
        self.highest = max(self.highest, rank)
        self.first = created if self.first is None else min(self.first, created)

    def add(self, other: Restored) -> None:
        self.rows += other.rows
        self.expired += other.expired
        self.epochs |= other.epochs
        if other.first is not None:
            self._widen(other.highest, other.first)


def begin(at: Where, queue: str, client: bytes) -> Restore:
    """Shut the gate, and clear what an earlier try left.

    Raises NotRestored when the queue is there or on the move, StoreUnavailable.
    """
    with Stores(at) as stores:
        place = stores.place(queue, make=True)
        store = stores.client(place.uri)
        transfer = Transfer(store)
        gate = transfer.gate(at.project, queue).run()
        if gate and not gate.startswith((f"into:{IMPORT}", "closed:")):
            raise NotRestored(f'the queue "{queue}" is on the move to another store')
        token = IMPORT + secrets.token_hex(16)
        if not transfer.stage(at.project, queue, token).run():
            raise NotRestored(
                f'there is a queue "{queue}" already, and only one that is not there can be '
                "restored: delete it, or give the restored one another name"
            )
        seconds, microseconds = store.command("TIME")
        now = int(seconds) * 1000 + int(microseconds) // 1000
    return Restore(at, queue, place, token, now, client)


def write(made: Restore, batches: Iterable[pa.RecordBatch]) -> Restored:
    """Put the rows of one task.  Safe to do twice with the same rows.

    Raises rows.BadRow, StoreUnavailable, and Gated when another try has begun.
    """
    written = Restored()
    with Stores(made.where) as stores:
        transfer = Transfer(stores.client(made.place.uri))
        for portion in _portions(made, batches, written):
            transfer.take_in(made.where.project, made.queue, made.token, portion).run()
    return written


def _portions(
    made: Restore, batches: Iterable[pa.RecordBatch], written: Restored
) -> Iterator[Portion]:
    items: list[bytes | str | int] = []
    size = count = 0
    for batch in batches:
        for message in archived.messages(batch, made.client):
            alive = message.expires > made.now
            written.note(message, alive)
            if not alive:
                continue
            if count == _PORTION or (count and size + message.size > _PORTION_BYTES):
                yield _portion(items)
                items, size, count = [], 0, 0
            items += _placed(message, made.now)
            size += message.size
            count += 1
    if items:
        yield _portion(items)


def _portion(items: list[bytes | str | int]) -> Portion:
    # An interval without ranks: whatever else is there stays, in any order.
    return Portion(kind="index", items=items, after=int(items[-6]), following="index:")


def _placed(message: Message, now: int) -> tuple[bytes | str | int, ...]:
    """Rank, expiry, end of the hold, end of the delay, hold, envelope."""
    due = message.created + message.delay * 1000
    front = envelope.front(message.created, message.expires, message.ttl, message.delay)
    return (
        message.rank,
        message.expires,
        "",
        due if due > now else "",
        f"{_NOBODY}{message.claims}" if message.claims else "",
        front + message.tail,
    )


def finish(made: Restore, done: Iterable[Restored], name: str = "") -> Restored:
    """Open the gate; what all tasks have put.  With a *name*, `count_of` knows it.

    Raises NotRestored, and StoreUnavailable; `give_up` is to be called then.
    """
    whole = Restored()
    for each in done:
        whole.add(each)
    project, queue = made.where.project, made.queue
    with Stores(made.where) as stores:
        client = stores.client(made.place.uri)
        there = client.command("ZCARD", keys.of_queue(project, queue).messages)
        if there != whole.rows:
            raise NotRestored(
                f'the {whole.rows} rows for the queue "{queue}" have {there} ranks only: are they '
                "of several epochs, or twice in their source?"
            )
        transfer = Transfer(client)
        epoch = _epoch(whole)
        if name:
            items = ledger.entry(name, epoch, whole.rows, made.now)
            entry = Portion(kind="ledger", items=items)
            transfer.take_in(project, queue, made.token, entry).run()
        created = made.now if whole.first is None else whole.first
        itself = Queue(name=queue, metadata={}, created=created)
        portion = Portion(kind="queue", items=[itself, epoch], after=whole.highest)
        transfer.take_in(project, queue, made.token, portion).run()
        transfer.welcome(project, queue, made.token).run()
    return whole


def _epoch(whole: Restored) -> str:
    """That of all rows, if there is just one."""
    if len(whole.epochs) == 1:
        (epoch,) = whole.epochs
        if epoch is not None:
            return epoch
    return identity.new_epoch()


def give_up(made: Restore) -> None:
    """Clear what has come.  If the store is away, the next try does it."""
    project, queue = made.where.project, made.queue
    with contextlib.suppress(errors.Unavailable), Stores(made.where) as stores:
        transfer = Transfer(stores.client(made.place.uri))
        if transfer.gate(project, queue).run() == f"into:{made.token}":
            transfer.discard(project, queue, made.token).run()
            control = stores.client(made.where.control_uri)
            Catalogue(control, clock.store).deleted(project, queue).run()


def count_of(stores: Stores, queue: str, name: str) -> int | None:
    """How many messages a restore of this name has put; None: the queue is not its.

    Raises StoreUnavailable.
    """

    def look(place: Place) -> int | None:
        entries = ledger.Ledger(stores.client(place.uri), clock.store)
        try:
            found = entries.last(stores.where.project, queue, name).run()
        except errors.Gated as met:
            if met.gate.startswith(f"into:{IMPORT}"):
                return None  # a try that died, or goes on
            raise
        return found[1] if found else None

    return stores.patiently(queue, look)


class Writer(DataSourceArrowWriter):
    """A batch write with the option *preserve*."""

    def __init__(self, made: Restore) -> None:
        self._restore = made

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Restored:
        return write(self._restore, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        try:
            finish(self._restore, [each for each in messages if isinstance(each, Restored)])
        except NotRestored:
            give_up(self._restore)
            raise

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        give_up(self._restore)


def writer(at: Where, options: Options, schema: StructType, overwrite: bool) -> Writer:
    """Raises BadConfiguration."""
    if overwrite:
        raise errors.BadConfiguration("a queue is restored with mode append")
    if options["queue"] is None:
        raise errors.BadConfiguration('option "queue" must be given with preserve')
    for name in _POINTLESS:
        if name in options.given:
            raise errors.BadConfiguration(f'option "{name}" means nothing with preserve')
    archived.checked(schema)
    try:
        return Writer(begin(at, options["queue"], envelope.client_bytes(options["clientId"])))
    except NotRestored as error:
        raise errors.BadConfiguration(f'option "preserve": {error}') from error
