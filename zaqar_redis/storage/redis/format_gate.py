# SPDX-License-Identifier: Apache-2.0
"""What is not written while releases may work on a store that do not know it."""

from __future__ import annotations

from zaqar_redis import errors, formats
from zaqar_redis.keyspace import control_keys
from zaqar_redis.keyspace.script import RedisCommand, Steps


def knows_order() -> Steps[bool]:
    """Returns whether all releases that work on the store know what `formats.ORDER` adds."""
    needs = yield RedisCommand("HGET", control_keys.CONTROL.format, "needs")
    return int(needs or 1) >= formats.ORDER


def require_order(what: str) -> Steps[None]:
    """Raises Conflict, and names *what* is not available, when they may not."""
    if not (yield from knows_order()):
        raise errors.Conflict(
            why=f"{what} not available while workers of older releases may run: once all are "
            "replaced, an operator runs zaqar-redis upgrade."
        )
