# SPDX-License-Identifier: Apache-2.0
"""Writes: rows become messages, at least once or exactly once.

A task may run twice, and so may a batch whose end Spark did not commit before it died.
With the *ledger* each chunk goes to Redis together with its number, and a chunk that was
written already is skipped: the same rows must come in the same order.  Tasks stage
*staged* chunks, and the driver publishes them once all tasks are done: rows may differ
from try to try.
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

from zaqar_redis import clock, errors
from zaqar_redis.keyspace import envelope
from zaqar_redis.spark import queue_restore
from zaqar_redis.spark.options import LEDGER, NONE, SINK, STAGED, WRITE, SourceOptions
from zaqar_redis.spark.stores import StoreConfig, StoreConnections, StoreLocation
from zaqar_redis.spark.task import TaskInfo, current_stream_task, current_task, gc_disabled
from zaqar_redis.spark.writing import publishing, rows
from zaqar_redis.spark.writing.publishing import StagedChunks
from zaqar_redis.spark.writing.rows import RowChunk, RowEncoding
from zaqar_redis.storage.redis.bulk.ledger import BatchDigest, ChunkMismatch, RedisLedger
from zaqar_redis.storage.redis.bulk.staged_chunks import RedisStagedChunks

T = TypeVar("T")

_DEFAULTS = {WRITE: NONE, SINK: LEDGER}

#: Writes the messages of a chunk that go to one queue; False: they were written before.
PutChunk = Callable[[str, RowChunk, StoreLocation], bool]


@dataclass
class WriteCommitMessage(WriterCommitMessage):
    """What a task wrote."""

    rows: int = 0
    #: rows that were written before
    skipped: int = 0
    staged: StagedChunks | None = None
    #: with the ledger: the writer's name, and the queues it wrote to
    writer: str = ""
    queues: tuple[str, ...] = ()


@dataclass(frozen=True)
class WritePlan:
    """How to write; serialized to tasks."""

    config: StoreConfig
    encoding: RowEncoding
    delivery: str


def write_plan(
    config: StoreConfig, options: SourceOptions, schema: StructType, overwrite: bool
) -> WritePlan:
    """Returns the plan of a write.  Raises BadConfiguration."""
    if overwrite:
        raise errors.BadConfiguration(
            "a queue can be appended to only: mode append, output mode append"
        )
    encoding = RowEncoding(
        columns=rows.checked_columns(schema, options["queue"]),
        kind=options["kind"],
        queue=options["queue"],
        ttl=options["ttl"],
        client=envelope.client_bytes(options["clientId"]),
        size=options["putSize"],
        body_max=options["maxMessageSize"],
    )
    return WritePlan(config, encoding, options["delivery"] or _DEFAULTS[options.use])


def write(
    plan: WritePlan, writer: str, batch: int, task: TaskInfo, batches: Iterator[pa.RecordBatch]
) -> WriteCommitMessage:
    """Writes the rows of one task.

    *writer* is a name that is the same at each try.  Raises rows.BadRow, and keeps what was
    written before; and StoreUnavailable.
    """
    token = f"{batch}-{task.partition}-{task.attempt}-{uuid.uuid4().hex[:8]}"
    staged = StagedChunks(writer, token)
    written = WriteCommitMessage(writer=writer, staged=staged if plan.delivery == STAGED else None)
    with StoreConnections(plan.config) as stores, gc_disabled():
        ledger = _LedgerWriter(stores, _ledger_name(writer, task.partition), batch)
        put = _put(plan, stores, ledger, staged)
        for chunk in rows.chunks(plan.encoding, batches):
            for queue, messages in chunk.by_queue.items():
                new = _with_retry(stores, queue, partial(put, queue, chunk))
                written.rows += len(messages)
                written.skipped += 0 if new else len(messages)
        for queue in ledger.sent:
            _with_retry(stores, queue, partial(ledger.end, queue))
    written.queues = tuple(ledger.sent)
    return written


def _with_retry(stores: StoreConnections, queue: str, act: Callable[[StoreLocation], T]) -> T:
    try:
        return stores.with_retry(queue, act, make=True)
    except ChunkMismatch as error:
        raise rows.BadRow(
            f'rows for the queue "{queue}" differ from those of the first try; '
            "nothing was written: where rows may change between two tries, use the option "
            "delivery=staged"
        ) from error
    except (errors.EncryptionRequired, errors.PostRefused) as error:
        raise rows.refused(queue, error) from error


@dataclass
class _SentChunks:
    """What one try of a task has sent to a queue."""

    #: the last chunk written before this try; -1: none of this batch
    before: int
    #: the last one of this try
    number: int = -1
    #: of all chunks up to it
    digest: str = ""
    sum: BatchDigest = field(default_factory=BatchDigest)

    def add(self, queue: str, chunk: RowChunk) -> None:
        if chunk.number != self.number:  # a retry may put it twice
            self.number, self.digest = chunk.number, self.sum.add(chunk.by_queue[queue])


class _LedgerWriter:
    """Writes the chunks of one try of a task; earlier tries may have written some."""

    def __init__(self, stores: StoreConnections, name: str, batch: int) -> None:
        self._stores = stores
        self._name, self._batch = name, batch
        #: by queue
        self.sent: dict[str, _SentChunks] = {}

    def put(self, queue: str, chunk: RowChunk, location: StoreLocation) -> bool:
        if queue not in self.sent:
            self.sent[queue] = _SentChunks(before=self.last(queue, location))
        sent = self.sent[queue]
        if sent.number < sent.before < chunk.number:
            raise ChunkMismatch  # this try has no chunk with the number that was written last
        sent.add(queue, chunk)
        return (
            self._ledger(location)
            .post(
                self._stores.config.project,
                queue,
                chunk.by_queue[queue],
                name=self._name,
                batch=self._batch,
                chunk=chunk.number,
                digest=sent.digest,
                size=chunk.largest[queue],
                default_ttl=rows.DEFAULT_TTL,
                encrypted=False,
            )
            .run()
        )

    def end(self, queue: str, location: StoreLocation) -> None:
        """Raises ChunkMismatch unless exactly the chunks of this try were written.

        Otherwise rows that only this try has would be skipped as written, and lost.
        """
        sent = self.sent[queue]
        self._ledger(location).end(
            self._stores.config.project,
            queue,
            name=self._name,
            batch=self._batch,
            chunk=sent.number + 1,
            digest=sent.digest,
        ).run()

    def last(self, queue: str, location: StoreLocation) -> int:
        """Returns the number of the batch's last written chunk; -1: none was written."""
        last = self._ledger(location).last(self._stores.config.project, queue, self._name).run()
        return last[1] if last is not None and last[0] == self._batch else -1

    def _ledger(self, location: StoreLocation) -> RedisLedger:
        return RedisLedger(self._stores.client(location.uri), clock.store)


def _check_tasks(plan: WritePlan, batch: int, done: Sequence[WriteCommitMessage]) -> None:
    """Raises rows.BadRow when another try of the batch had more tasks.

    The ledger knows rows by their task: rows of the other tasks may be written twice now.
    """
    writers = {queue: each.writer for each in done for queue in each.queues}
    if not writers:
        return
    with StoreConnections(plan.config) as stores:
        for queue, writer in writers.items():
            more = _LedgerWriter(stores, _ledger_name(writer, len(done)), batch)
            if stores.with_retry(queue, partial(more.last, queue)) >= 0:
                raise rows.BadRow(
                    f'rows for the queue "{queue}" came from more than {len(done)} tasks the '
                    "first time, and some may be written twice now; where tasks may change "
                    "between two tries, use the option delivery=staged"
                )


def _ledger_name(name: str, partition: int) -> str:
    """Returns the name of a task in ledgers."""
    return f"{name}:{partition}"


def _put(
    plan: WritePlan, stores: StoreConnections, ledger: _LedgerWriter, staged: StagedChunks
) -> PutChunk:
    project = plan.config.project

    def stage(queue: str, chunk: RowChunk, location: StoreLocation) -> bool:
        stages = RedisStagedChunks(stores.client(location.uri), clock.store)
        staged.add(queue, chunk)
        messages = chunk.by_queue[queue]
        stages.put(project, queue, staged.name, staged.token, chunk.number, messages).run()
        return True

    def append_now(queue: str, chunk: RowChunk, location: StoreLocation) -> bool:
        RedisLedger(stores.client(location.uri), clock.store).append(
            project,
            queue,
            chunk.by_queue[queue],
            size=chunk.largest[queue],
            default_ttl=rows.DEFAULT_TTL,
            encrypted=False,
        ).run()
        return True

    return {LEDGER: ledger.put, STAGED: stage, NONE: append_now}[plan.delivery]


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, plan: WritePlan, name: str) -> None:
        self._plan = plan
        self._name = name

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteCommitMessage:
        return write(self._plan, self._name, 0, current_task(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _commit(self._plan, 0, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteCommitMessage:
        task = current_stream_task()
        return write(self._plan, task.query, task.batch, task, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _commit(self._plan, batchId, messages)


def _commit(plan: WritePlan, batch: int, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Ends a write when all tasks are done; *messages* are in the order of tasks."""
    done = [each for each in messages if isinstance(each, WriteCommitMessage)]
    if plan.delivery == STAGED:
        publishing.publish(plan.config, batch, [each.staged for each in done if each.staged])
    elif plan.delivery == LEDGER:
        _check_tasks(plan, batch, done)


def batch_writer(
    config: StoreConfig, options: SourceOptions, schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    if options["preserve"]:
        return queue_restore.writer(config, options, schema, overwrite)
    plan = write_plan(config, options, schema, overwrite)
    return BatchWriter(plan, options["writeId"] or uuid.uuid4().hex)
