# SPDX-License-Identifier: Apache-2.0
"""Offsets of a stream, as they are in its checkpoint.

    {"acme/orders": {"epoch": "9f2c51d07a3be486", "offset": 1200000, "parts": 2}}

*offset* is the next rank to read; *parts* is the number of tasks that read what comes before
it: a batch that is repeated on another machine, or with other options, must be split as it
was, for a sink that knows its tasks by number.  A queue is in one store at a time, and keeps
epoch and ranks when it moves: the key does not name the store.  Two more fields are optional:

- *initial*: marks the offset at which a stream would begin; only in the initial offset,
  which Spark asks for before the first batch and never writes to the checkpoint;
- *from*: the rank at which this batch begins in the queue.  Spark asks for the initial
  offset anew when it repeats the first batch, and gets another answer for ``latest``;
  a queue that joins later, or begins a new epoch, has no earlier offset either.

Spark compares offsets as JSON text: keys are sorted, values are numbers and texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

#: Of one queue.
QueueOffset = dict[str, Any]
Offset = dict[str, QueueOffset]


def key(project: str, queue: str) -> str:
    return f"{quote(project, safe='')}/{queue}"


def project_of(key: str) -> str:
    return unquote(key.partition("/")[0])


def queue_of(key: str) -> str:
    return key.rpartition("/")[2]


def sorted_(offset: Mapping[str, QueueOffset]) -> Offset:
    """Returns the offset with sorted keys, as Spark needs it."""
    return {key: dict(sorted(offset[key].items())) for key in sorted(offset)}


def initial(epoch: str, rank: int) -> QueueOffset:
    return {"epoch": epoch, "initial": 1, "offset": rank}


def up_to(epoch: str, rank: int, start: int | None = None) -> QueueOffset:
    """Returns an entry up to *rank*; *start* where the entry before does not give it."""
    return {"epoch": epoch, "offset": rank} | ({} if start is None else {"from": start})


def rate_limit(lags: Mapping[str, int], limit: int) -> dict[str, int]:
    """Returns each queue's share of a batch of *limit* ranks, in proportion to its lag.

    Every queue that lags gets one at least: none may starve behind a long one.
    """
    total = sum(lags.values())
    if total <= limit:
        return dict(lags)
    return {key: min(lag, max(1, limit * lag // total)) for key, lag in lags.items() if lag}
