# SPDX-License-Identifier: Apache-2.0
"""Roles that one process has at a time."""

from __future__ import annotations

from typing import Any

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps, verb

_TAKE = Script("role_take")
_LEAVE = Script("role_leave")


class Roles:
    """In the control store."""

    def __init__(self, client: Any) -> None:
        self.client = client

    @verb
    def take(self, role: str, process: str, seconds: float) -> Steps[bool]:
        """Whether the process has the role for so long, from now on."""
        taken = yield _TAKE(keys.RoleKeys(role), process=process, period=int(seconds * 1000))
        return bool(taken)

    @verb
    def leave(self, role: str, process: str) -> Steps[None]:
        """Let another process have it now.  Idempotent."""
        yield _LEAVE(keys.RoleKeys(role), process=process)
