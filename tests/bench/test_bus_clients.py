# SPDX-License-Identifier: Apache-2.0
"""The clients that buses are measured with publish and hear everything, without their processes."""

from __future__ import annotations

import contextlib
import time
from threading import Thread

import pytest
import redis

from benchmarks.bus.contenders import CONTENDERS
from benchmarks.bus.process import READY_SECONDS
from benchmarks.bus.sessions import (
    ClientSpec,
    CountSession,
    PublishSession,
    RoundSchedule,
)
from tests.support import servers


@pytest.mark.parametrize("name", ["redis-py", "redis-py-buffered"])
def test_client_of_redis_publishes_and_hears_each_message(name: str) -> None:
    module = CONTENDERS[name].client()
    with servers.redis_server() as server:
        spec = ClientSpec(name, "", server.uri, channels=3, size=16)
        heard, published = CountSession(spec), PublishSession(spec)

        def listen() -> None:
            with contextlib.suppress(redis.RedisError):  # it listens until its server ends
                module.listen(server.uri, heard)

        listener = Thread(target=listen)
        listener.start()
        assert heard.ready.wait(READY_SECONDS)
        now = time.monotonic()
        for session in (heard, published):
            session.schedule.set_result(RoundSchedule(now, now, now + 0.3, now + 60))
        module.publish(server.uri, published)
        assert published.messages > 0
        servers.wait_for(lambda: heard.messages == published.messages, "the messages")
    listener.join()
