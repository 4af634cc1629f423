# SPDX-License-Identifier: Apache-2.0
"""Keeps memory of a Redis free for what goes on when it is full: claims, deletions, leases.

Redis at its `maxmemory` refuses every command that may need memory.  So what clients add is refused
before, by scripts with the flag ``deny-oom`` (`script_source`).  The rest of the memory is for all
else, and most of that gives memory back.
"""

from __future__ import annotations

import re

from zaqar_redis import errors
from zaqar_redis.keyspace.refusals import RefusalLog
from zaqar_redis.keyspace.script import RedisCommand
from zaqar_redis.metrics import definitions as metrics

LOOK = RedisCommand("INFO", "memory")
#: Seconds between looks; the second one once a tenth of the limit is left until posts are refused:
#: a worker that posts 100 MB/s fills a tenth of 1 GB in a second.  A look costs Redis 0.1 ms.
_PAUSE_SECONDS, _NEAR_PAUSE_SECONDS = 1.0, 0.1
_NEAR = 0.1
_FIELD = re.compile(rb"^(used_memory|maxmemory|mem_not_counted_for_evict):(\d+)\r?$", re.MULTILINE)
#: Under the other policies Redis makes room itself, by deleting messages.
_KEEPS_ALL = b"maxmemory_policy:noeviction"
_REFUSALS = RefusalLog()


class MemoryGuard:
    """Whether a Redis has memory for more messages, by its last answer to `LOOK`."""

    def __init__(self, share: float, store: str) -> None:
        """*share*: of `maxmemory`, above which it is full; 0: it never is.  *store*: for errors."""
        self._share = share
        self._store = store
        self.is_full = False
        #: seconds until the next look
        self.pause = _PAUSE_SECONDS

    @property
    def is_off(self) -> bool:
        return self._share == 0

    def note(self, info: bytes) -> None:
        """*info*: the answer to `LOOK`."""
        found = {name: int(value) for name, value in _FIELD.findall(info)}
        limit, used = found.get(b"maxmemory", 0), 0.0
        if limit and _KEEPS_ALL in info:
            # As Redis counts itself: buffers for replicas and its file do not matter.
            counted = found[b"used_memory"] - found.get(b"mem_not_counted_for_evict", 0)
            used = counted / limit
        self.is_full = used >= self._share
        self.pause = _NEAR_PAUSE_SECONDS if used >= self._share - _NEAR else _PAUSE_SECONDS

    def refusal(self) -> errors.StoreFull:
        """Returns what the caller of a command gets that is not sent, and counts it."""
        return refusal(self._store)


def refusal(store: str) -> errors.StoreFull:
    """Returns the error for what a full store does not do; counts it, and logs it now and then."""
    metrics.STORE_FULL.add(store)
    error = errors.StoreFull(store)
    _REFUSALS.note(store, "full", error)
    return error
