# SPDX-License-Identifier: Apache-2.0
"""Logs of servers that benchmarks and tests start."""

from __future__ import annotations

import re

from zaqar_redis.benchmarks.service import BenchmarkFailed

#: A traceback; a socket that was closed twice; a line of ours without its reason.
_WRONG = re.compile(
    r"^.*(?:Traceback \(most recent call last\)|Error while closing socket|Bad file descriptor)"
    r"|^\[[^\n]*\] [^\n]*: *$",
    re.M,
)
#: Characters shown before and behind a match.
_BEFORE, _BEHIND = 500, 4000


def check_log(server: str, log: str) -> None:
    """Raises BenchmarkFailed when a server's log shows a bug."""
    found = _WRONG.search(log)
    if found is not None:
        shown = log[max(0, found.start() - _BEFORE) : found.end() + _BEHIND]
        raise BenchmarkFailed(f"the log of {server} shows a bug:\n{shown}")
