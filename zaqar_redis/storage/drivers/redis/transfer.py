# SPDX-License-Identifier: Apache-2.0
"""Queues that move from one Redis to another."""

from __future__ import annotations

from typing import Any

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.storage.drivers.redis import identity

_OPEN = Script("gate_open")
_CLOSE = Script("gate_close")

#: Milliseconds for which a queue that left is remembered: far longer than any
#: worker believes what it knows of where queues live.
_CLOSED_FOR = 300 * 1000


class Transfer:
    def __init__(self, client: Any) -> None:
        self.client = client

    @verb
    def open(self, project: str, queue: str, gate: str) -> Steps[bool]:
        return bool((yield _OPEN(keys.of_queue(project, queue), shut=gate)))

    @verb
    def close(self, project: str, queue: str) -> Steps[bool]:
        closed = yield _CLOSE(
            keys.of_queue(project, queue), token=identity.new_claim(), life=_CLOSED_FOR
        )
        return bool(closed)
