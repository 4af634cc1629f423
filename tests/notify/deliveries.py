# SPDX-License-Identifier: Apache-2.0
"""Deliveries for tests of targets."""

from __future__ import annotations

import json
from typing import Any

from tests.support.stores import ContractStore
from zaqar_redis.notify.target import Delivery
from zaqar_redis.records import Message, Subscription
from zaqar_redis.service.subscription_options import SubscriptionOptions


def subscribe(store: ContractStore, subscriber: str, **options: Any) -> str:
    """Returns the id of a subscription to the queue "q"."""
    assert store.driver.subscriptions
    created = store.driver.subscriptions.create(
        store.project, "q", subscriber, ttl=3600, options=options, delivers=True
    )
    id = store.run(created)
    assert id
    return id


def delivery(
    subscriber: str,
    raw: dict[str, Any] | None = None,
    *,
    bodies: tuple[Any, ...] = ("hello",),
    notice: dict[str, Any] | None = None,
    timeout: float = 10.0,
) -> Delivery:
    options = raw or {}
    messages = [
        Message(f"message-{rank}", rank, 0, 300, json.dumps(body).encode(), 0, 300_000)
        for rank, body in enumerate(bodies)
    ]
    return Delivery(
        project="blue",
        source="orders",
        subscription=Subscription("subscription", "orders", subscriber, 300, 0, options),
        options=SubscriptionOptions(raw=options, timeout=timeout, batch=max(1, len(bodies))),
        messages=() if notice else messages,
        notice=json.dumps(notice).encode() if notice else b"",
        id="subscription/message-0",
    )
