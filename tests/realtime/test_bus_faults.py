# SPDX-License-Identifier: Apache-2.0
"""Channels over a bus of their own: its broker is lost, and no loss goes unreported.

Clients of two nodes publish on the same channels, whose history is in Redis all the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.realtime import crowd
from tests.realtime.sdk_client import IGNORE_UNCLOSED_SOCKETS
from tests.support import servers
from tests.support.buses import BROKERS, BusBroker
from tests.support.tiers import in_gate

pytestmark = IGNORE_UNCLOSED_SOCKETS


class BusNodes(NamedTuple):
    redis: servers.RedisServer
    broker: BusBroker
    a: servers.RunningService
    b: servers.RunningService


@pytest.fixture(params=in_gate(BROKERS))
def nodes(request: pytest.FixtureRequest) -> Iterator[BusNodes]:
    """Two nodes with a bus that is not their Redis."""
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(servers.redis_server())
        broker = stack.enter_context(BROKERS[request.param]())
        options = {"channels": crowd.OPTIONS["channels"] | {"bus": broker.uri}}
        a, b = (stack.enter_context(servers.service(redis.uri, options=options)) for _ in range(2))
        yield BusNodes(redis, broker, a, b)


async def test_broker_that_is_killed_and_started_again_or_paused_costs_no_client_a_publication(
    nodes: BusNodes,
) -> None:
    async with crowd.subscriber_fleet([nodes.redis.uri], nodes.a, nodes.b, each=2) as fleet:
        await fleet.wait_for_acknowledged()
        absent = fleet.members[0]
        await absent.client.disconnect()
        nodes.broker.signal(signal.SIGKILL)
        await fleet.wait_for_acknowledged()  # the history takes them
        await absent.client.connect()
        await asyncio.to_thread(nodes.broker.start)
        await fleet.pause()
        fleet.publish()
        nodes.broker.signal(signal.SIGSTOP)
        await fleet.wait_for_acknowledged()
        nodes.broker.signal(signal.SIGCONT)
        await fleet.wait_for_acknowledged()
        await fleet.finish(members=fleet.members[1:])
