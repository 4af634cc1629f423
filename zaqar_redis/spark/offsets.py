# SPDX-License-Identifier: Apache-2.0
"""Offsets of a stream, as they are in its checkpoint.

    {"acme/orders": {"epoch": "9f2c51d07a3be486", "offset": 1200000, "parts": 2}}

*offset* is the next rank to read; *parts* says how many tasks read what comes before it: a
batch that is repeated on another machine, or with other options, must be cut as it was, for
a sink that knows its tasks by number.  A queue lives in one store at a time, and keeps epoch
and ranks when it moves: the key does not say which store it is.  Two more are there at
times:

- *initial*: where the stream would begin, if it had; only in what Spark asks for before
  the first batch, which is never written down;
- *from*: the rank at which this batch begins in the queue.  Spark asks for the initial
  offset anew when it repeats the first batch, and gets another answer for ``latest``;
  a queue that joins later, or begins a new life, has no offset to begin behind either.

Spark compares offsets as JSON text: keys are sorted, values are numbers and texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

#: Of one queue.
Entry = dict[str, Any]
Offset = dict[str, Entry]


def key(project: str, queue: str) -> str:
    return f"{quote(project, safe='')}/{queue}"


def project_of(key: str) -> str:
    return unquote(key.partition("/")[0])


def queue_of(key: str) -> str:
    return key.rpartition("/")[2]


def sorted_(offset: Mapping[str, Entry]) -> Offset:
    """As it goes to Spark."""
    return {key: dict(sorted(offset[key].items())) for key in sorted(offset)}


def initial(epoch: str, rank: int) -> Entry:
    return {"epoch": epoch, "initial": 1, "offset": rank}


def reached(epoch: str, rank: int, begun: int | None = None) -> Entry:
    """Up to this rank; from *begun* on, where the entry before does not say so."""
    return {"epoch": epoch, "offset": rank} | ({} if begun is None else {"from": begun})


def shared(lags: Mapping[str, int], limit: int) -> dict[str, int]:
    """How much of each queue comes into a batch of *limit*, by how far it lags behind.

    Every queue that lags gets one at least: none may starve behind a long one.
    """
    total = sum(lags.values())
    if total <= limit:
        return dict(lags)
    return {key: min(lag, max(1, limit * lag // total)) for key, lag in lags.items() if lag}
