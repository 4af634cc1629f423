# SPDX-License-Identifier: Apache-2.0
"""Writes: rows become messages, at least once or just once.

A task may run twice, and so may a batch whose end Spark did not live to note.  With the
*ledger* each chunk goes to Redis together with its number, and one that is there already
is passed over: the same rows must come in the same order.  *staged* chunks are put aside
by tasks, and published by the driver once all tasks are done: rows may differ from try
to try.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from zaqar_redis import clock, errors, rules
from zaqar_redis.keyspace import envelope
from zaqar_redis.spark import context, publishing, restoring, rows
from zaqar_redis.spark.collector import no_collector
from zaqar_redis.spark.context import Task
from zaqar_redis.spark.options import LEDGER, NONE, SINK, STAGED, WRITE, Options
from zaqar_redis.spark.publishing import Staged
from zaqar_redis.spark.rows import Chunk, Layout
from zaqar_redis.spark.stores import Place, Stores, Where
from zaqar_redis.storage.driver import NeedsSealing
from zaqar_redis.storage.drivers.redis.ledger import ChunkDiffers, Digest, Ledger
from zaqar_redis.storage.drivers.redis.stages import Stages

T = TypeVar("T")

#: Seconds that messages live when neither row, option nor queue say so: as in the service.
DEFAULT_TTL = rules.Limits().default_message_ttl

_DEFAULTS = {WRITE: NONE, SINK: LEDGER}

#: Writes the messages of a chunk that go to one queue; whether they were not there yet.
Put = Callable[[str, Chunk, Place], bool]


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote."""

    rows: int = 0
    #: rows that were there already
    skipped: int = 0
    staged: Staged | None = None
    #: with the ledger: who wrote, and where to
    writer: str = ""
    queues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """How to write; it travels to tasks."""

    where: Where
    layout: Layout
    delivery: str


def plan(at: Where, options: Options, schema: StructType, overwrite: bool) -> Plan:
    """Raises BadConfiguration."""
    if overwrite:
        raise errors.BadConfiguration(
            "a queue can be appended to only: mode append, output mode append or update"
        )
    layout = Layout(
        columns=rows.checked(schema, options["queue"]),
        queue=options["queue"],
        ttl=options["ttl"],
        client=envelope.client_bytes(options["clientId"]),
        size=options["putSize"],
        body_max=options["maxMessageSize"],
    )
    return Plan(at, layout, options["delivery"] or _DEFAULTS[options.use])


def write(
    made: Plan, writer: str, batch: int, task: Task, batches: Iterator[pa.RecordBatch]
) -> Written:
    """Write the rows of one task.

    *writer* is a name that is the same at each try.  Raises rows.BadRow, what was written
    before stays; and StoreUnavailable.
    """
    token = f"{batch}-{task.partition}-{task.attempt}-{uuid.uuid4().hex[:8]}"
    staged = Staged(writer, token)
    written = Written(writer=writer, staged=staged if made.delivery == STAGED else None)
    with Stores(made.where) as stores, no_collector():
        ledger = _IntoLedger(stores, _of_task(writer, task.partition), batch)
        put = _put(made, stores, ledger, staged)
        for chunk in rows.chunks(made.layout, batches):
            for queue, messages in chunk.by_queue.items():
                new = _reach(stores, queue, partial(put, queue, chunk))
                written.rows += len(messages)
                written.skipped += 0 if new else len(messages)
        for queue in ledger.sent:
            _reach(stores, queue, partial(ledger.end, queue))
    written.queues = tuple(ledger.sent)
    return written


def _reach(stores: Stores, queue: str, act: Callable[[Place], T]) -> T:
    try:
        return stores.patiently(queue, act, make=True)
    except ChunkDiffers as error:
        raise rows.BadRow(
            f'rows for the queue "{queue}" come again, and are others than the first time; '
            "nothing was written: where rows may change between two tries, use the option "
            "delivery=staged"
        ) from error
    except NeedsSealing as error:
        raise rows.needs_sealing(queue) from error


@dataclass
class _Sent:
    """What one try of a task has sent to a queue."""

    #: the chunk that had come in last before this try; -1: none of this batch
    before: int
    #: the last one of this try
    number: int = -1
    #: of everything up to it
    digest: str = ""
    sum: Digest = field(default_factory=Digest)

    def add(self, queue: str, chunk: Chunk) -> None:
        if chunk.number != self.number:  # it may be put twice
            self.number, self.digest = chunk.number, self.sum.add(chunk.by_queue[queue])


class _IntoLedger:
    """The chunks of one try of a task; some may have come in at another."""

    def __init__(self, stores: Stores, name: str, batch: int) -> None:
        self._stores = stores
        self._name, self._batch = name, batch
        #: by queue
        self.sent: dict[str, _Sent] = {}

    def put(self, queue: str, chunk: Chunk, place: Place) -> bool:
        if queue not in self.sent:
            self.sent[queue] = _Sent(before=self.last(queue, place))
        sent = self.sent[queue]
        if sent.number < sent.before < chunk.number:
            raise ChunkDiffers  # the one that came in last is none of this try's
        sent.add(queue, chunk)
        return (
            self._ledger(place)
            .post(
                self._stores.where.project,
                queue,
                chunk.by_queue[queue],
                name=self._name,
                batch=self._batch,
                chunk=chunk.number,
                digest=sent.digest,
                size=chunk.largest[queue],
                default_ttl=DEFAULT_TTL,
                sealed=False,
            )
            .run()
        )

    def end(self, queue: str, place: Place) -> None:
        """Raises ChunkDiffers when not just this came in, now or before.

        All that this try has would pass for known then, and be lost if it is not.
        """
        sent = self.sent[queue]
        self._ledger(place).end(
            self._stores.where.project,
            queue,
            name=self._name,
            batch=self._batch,
            chunk=sent.number + 1,
            digest=sent.digest,
        ).run()

    def last(self, queue: str, place: Place) -> int:
        """The chunk of the batch that came in last; -1: none did."""
        last = self._ledger(place).last(self._stores.where.project, queue, self._name).run()
        return last[1] if last is not None and last[0] == self._batch else -1

    def _ledger(self, place: Place) -> Ledger:
        return Ledger(self._stores.client(place.uri), clock.store)


def _check_tasks(made: Plan, batch: int, done: Sequence[Written]) -> None:
    """Raises rows.BadRow when another try of the batch had more tasks.

    Rows are known by their task: what the others wrote may be here once more.
    """
    writers = {queue: each.writer for each in done for queue in each.queues}
    if not writers:
        return
    with Stores(made.where) as stores:
        for queue, writer in writers.items():
            more = _IntoLedger(stores, _of_task(writer, len(done)), batch)
            if stores.patiently(queue, partial(more.last, queue)) >= 0:
                raise rows.BadRow(
                    f'rows for the queue "{queue}" came from more than {len(done)} tasks the '
                    "first time, and some may be there twice now; where tasks may change "
                    "between two tries, use the option delivery=staged"
                )


def _of_task(name: str, partition: int) -> str:
    """The name that a task has in ledgers."""
    return f"{name}:{partition}"


def _put(made: Plan, stores: Stores, ledger: _IntoLedger, staged: Staged) -> Put:
    project = made.where.project

    def aside(queue: str, chunk: Chunk, place: Place) -> bool:
        stages = Stages(stores.client(place.uri), clock.store)
        staged.note(queue, chunk)
        messages = chunk.by_queue[queue]
        stages.put(project, queue, staged.name, staged.token, chunk.number, messages).run()
        return True

    def at_once(queue: str, chunk: Chunk, place: Place) -> bool:
        Ledger(stores.client(place.uri), clock.store).append(
            project,
            queue,
            chunk.by_queue[queue],
            size=chunk.largest[queue],
            default_ttl=DEFAULT_TTL,
            sealed=False,
        ).run()
        return True

    return {LEDGER: ledger.put, STAGED: aside, NONE: at_once}[made.delivery]


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, made: Plan, name: str) -> None:
        self._plan = made
        self._name = name

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write(self._plan, self._name, 0, context.task(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _finish(self._plan, 0, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, made: Plan) -> None:
        self._plan = made

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = context.stream_task()
        return write(self._plan, task.query, task.batch, task, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _finish(self._plan, batchId, messages)


def _finish(made: Plan, batch: int, messages: Sequence[WriterCommitMessage | None]) -> None:
    """What is left to do when all tasks are done; *messages* are in their order."""
    done = [each for each in messages if isinstance(each, Written)]
    if made.delivery == STAGED:
        publishing.publish(made.where, batch, [each.staged for each in done if each.staged])
    elif made.delivery == LEDGER:
        _check_tasks(made, batch, done)


def batch_writer(
    at: Where, options: Options, schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    if options["preserve"]:
        return restoring.writer(at, options, schema, overwrite)
    made = plan(at, options, schema, overwrite)
    return BatchWriter(made, options["writeId"] or uuid.uuid4().hex)


def stream_writer(
    at: Where, options: Options, schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    return StreamWriter(plan(at, options, schema, overwrite))
