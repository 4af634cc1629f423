# SPDX-License-Identifier: Apache-2.0
"""What the log of a server that a bench or a test started must not have in it."""

from __future__ import annotations

import re

from zaqar_redis.bench.service import Failed

#: A bug; a socket that was closed twice; a line of ours that ends where its reason should be.
_WRONG = re.compile(
    r"^.*(?:Traceback \(most recent call last\)|Error while closing socket|Bad file descriptor)"
    r"|^\[[^\n]*\] [^\n]*: *$",
    re.M,
)
#: Characters shown from before it and behind it.
_BEFORE, _BEHIND = 500, 4000


def check(server: str, log: str) -> None:
    """Raises Failed when a server's log shows that it did what nobody meant it to do."""
    found = _WRONG.search(log)
    if found is not None:
        shown = log[max(0, found.start() - _BEFORE) : found.end() + _BEHIND]
        raise Failed(f"the log of {server} has what it must not have:\n{shown}")
