# SPDX-License-Identifier: Apache-2.0
"""What is not written while releases may work on a store that do not know it."""

from __future__ import annotations

from zaqar_redis import errors
from zaqar_redis.keyspace import control_keys
from zaqar_redis.keyspace.script import RedisCommand, Steps


def knows(version: int) -> Steps[bool]:
    """Returns whether all releases that work on the store know what that format adds."""
    needs = yield RedisCommand("HGET", control_keys.CONTROL.format, "needs")
    return int(needs or 1) >= version


def require(version: int, what: str) -> Steps[None]:
    """Raises Conflict, and names *what* is not available, when they may not."""
    if not (yield from knows(version)):
        raise errors.Conflict(
            why=f"{what} not available while workers of older releases may run: once all are "
            "replaced, an operator runs zaqar-redis upgrade."
        )
