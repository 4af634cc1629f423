# SPDX-License-Identifier: Apache-2.0
"""Roles that one process at a time has."""

from __future__ import annotations

from typing import Any

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps, verb

_TAKE = Script("role_take")
_LEAVE = Script("role_leave")


class RedisRoles:
    """Roles in the control store."""

    def __init__(self, client: Any) -> None:
        self.client = client

    @verb
    def take(self, role: str, process: str, seconds: float) -> Steps[bool]:
        """Takes or renews the role for *seconds*; returns False when another process has it."""
        taken = yield _TAKE(keys.RoleKeys(role), process=process, period=int(seconds * 1000))
        return bool(taken)

    @verb
    def leave(self, role: str, process: str) -> Steps[None]:
        """Gives the role up, for another process to take.  Idempotent."""
        yield _LEAVE(keys.RoleKeys(role), process=process)
