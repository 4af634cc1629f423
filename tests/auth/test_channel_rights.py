# SPDX-License-Identifier: Apache-2.0
"""Rights that restrict an identity to some queues hold for channels, too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.realtime.test_session import OPEN, NodeHarness
from zaqar_redis import errors
from zaqar_redis.auth.identity import MEMBER, Identity, Right, with_implied
from zaqar_redis.auth.policy import PolicyEnforcer
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.service.channels import ChannelService


@pytest.fixture
def harness() -> Iterator[NodeHarness]:
    with asyncio.Runner() as runner:
        started = NodeHarness(runner)
        started.build(SessionSettings(), OPEN, queue=OPEN)
        yield started
        started.run(started.node.close())


def restricted(harness: NodeHarness, *rights: Right) -> ChannelService:
    enforcer = PolicyEnforcer()
    identity = Identity("default", "program", with_implied(frozenset((MEMBER,))), rights)
    return ChannelService(
        harness.scope,
        lambda action, resource: enforcer.authorize(identity, action, "default", resource),
    )


def call(harness: NodeHarness, service: ChannelService, method: str, **document: Any) -> Any:
    return harness.run(service.call(method, json.dumps(document).encode()))


@pytest.mark.parametrize("channel", ["orders", "orders.eu", "$orders", "queue:orders"])
def test_channel_that_a_right_names_is_allowed(harness: NodeHarness, channel: str) -> None:
    service = restricted(harness, Right("orders*", ("channels:publish", "channels:broadcast")))
    # The harness has no queues: that one is a channel in their namespace.
    call(harness, service, "publish", channel=channel, data=1)
    call(harness, service, "broadcast", channels=[channel], data=1)
    with pytest.raises(errors.Forbidden, match="channels:history"):
        call(harness, service, "history", channel=channel)


@pytest.mark.parametrize("channel", ["secret", "$secret", "queue:secret", "$queue:secret"])
def test_channel_that_no_right_names_is_refused(harness: NodeHarness, channel: str) -> None:
    # "q*" is about queues whose names begin so, not about the namespace of all.
    service = restricted(harness, Right("orders", ("*",)), Right("q*", ("channels:*",)))
    for method, document in (
        ("publish", {"channel": channel, "data": 1}),
        ("broadcast", {"channels": ["orders", channel], "data": 1}),
        ("history", {"channel": channel}),
        ("presence", {"channel": channel}),
    ):
        with pytest.raises(errors.Forbidden, match="for secret"):
            call(harness, service, method, **document)
        replies = call(harness, service, "batch", commands=[{method: document}]).replies
        assert [reply["error"].code for reply in replies] == [103]
