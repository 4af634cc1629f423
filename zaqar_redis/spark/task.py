# SPDX-License-Identifier: Apache-2.0
"""The task that this process runs: which one it is, and how it works.

Spark does not pass query, batch, partition and attempt to writers, but its task context has
them.  The names of the two properties are internal to Spark: only this module uses them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import TaskContext

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class TaskInfo:
    partition: int
    attempt: int


@dataclass(frozen=True)
class StreamTaskInfo(TaskInfo):
    #: id of the query: the same as long as its checkpoint exists
    query: str
    batch: int


def current_task() -> TaskInfo:
    context = _context()
    return TaskInfo(context.partitionId(), context.attemptNumber())


def current_stream_task() -> StreamTaskInfo:
    """Raises RuntimeError when this release of Spark does not set query and batch."""
    context = _context()
    query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    if query is None or batch is None:
        raise RuntimeError(
            f"Spark does not set {_QUERY} and {_BATCH} for tasks of a stream; "
            "this release of it is not supported"
        )
    return StreamTaskInfo(context.partitionId(), context.attemptNumber(), query, int(batch))


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this runs only in a task of Spark")
    return context


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disables the garbage collector: a million small objects trigger it, and none is garbage."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:  # the process will run other tasks
        if before:
            gc.enable()
