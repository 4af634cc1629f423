# SPDX-License-Identifier: Apache-2.0
"""The base of the resources of a Redis."""

from __future__ import annotations

from typing import Any

from zaqar_redis import clock
from zaqar_redis.clock import Clock


class RedisResource:
    """Verbs over a client, which awaits them or blocks."""

    def __init__(self, client: Any, now: Clock = clock.store) -> None:
        self.client = client
        self._now = now
