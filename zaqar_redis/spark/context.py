# SPDX-License-Identifier: Apache-2.0
"""What a task knows of itself.

Spark does not tell writers which query, batch and partition they write; its task context
knows.  The names of the two properties are Spark's own business: here is the only place
that has them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class Task:
    partition: int
    attempt: int


@dataclass(frozen=True)
class StreamTask(Task):
    #: stays the same as long as the checkpoint does
    query: str
    batch: int


def task() -> Task:
    context = _context()
    return Task(context.partitionId(), context.attemptNumber())


def stream_task() -> StreamTask:
    """Raises RuntimeError when this release of Spark does not tell."""
    context = _context()
    query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    if query is None or batch is None:
        raise RuntimeError(
            f"Spark does not tell tasks of a stream {_QUERY} and {_BATCH} any more; "
            "this release of it is not supported"
        )
    return StreamTask(context.partitionId(), context.attemptNumber(), query, int(batch))


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this runs in a task of Spark only")
    return context
