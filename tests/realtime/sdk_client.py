# SPDX-License-Identifier: Apache-2.0
"""Clients based on centrifuge-python that record their events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from centrifuge import Client, ClientEventHandler, Subscription, SubscriptionEventHandler

from tests.support import servers

#: Marks for modules that use them: centrifuge-python leaves sockets that the server closed
#: to the garbage collector.
IGNORE_UNCLOSED_SOCKETS = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("collected"),
]

#: The key of the server API, and the secret that signs tokens.
KEY = "the operator's key"
SECRET = "a secret that is long enough for HS256"


def token(user: str, **claims: Any) -> str:
    return jwt.encode({"sub": user} | claims, SECRET, algorithm="HS256")


class SubscriptionRecorder(SubscriptionEventHandler):  # type: ignore[misc]  # it is untyped
    """Records the events of a client-side subscription."""

    def __init__(self, events: asyncio.Queue[tuple[str, Any]]) -> None:
        self._events = events
        self.publications: list[Any] = []
        self.recovered: list[bool] = []

    async def on_subscribed(self, ctx: Any) -> None:
        if ctx.was_recovering:
            self.recovered.append(ctx.recovered)

    async def on_publication(self, ctx: Any) -> None:
        self.publications.append(ctx.pub)
        self._events.put_nowait(("publication", ctx.pub.data))

    async def on_unsubscribed(self, ctx: Any) -> None:
        self._events.put_nowait(("unsubscribed", ctx.code))


class SdkClient(ClientEventHandler):  # type: ignore[misc]  # it is untyped
    """Records connection events and those of server-side subscriptions."""

    def __init__(self, service: servers.RunningService, user: str, **claims: Any) -> None:
        self.user = user
        self.events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        url = f"ws://127.0.0.1:{service.port}/connection/websocket"
        given = token(user, **claims)
        self.client = Client(url, token=given, events=self, timeout=60, max_reconnect_delay=1)

    async def __aenter__(self) -> SdkClient:
        await self.client.connect()
        await self.client.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.disconnect()

    async def on_disconnected(self, ctx: Any) -> None:
        self.events.put_nowait(("disconnected", (ctx.code, ctx.reason)))

    async def on_connecting(self, ctx: Any) -> None:
        if ctx.code:  # a reconnect
            self.events.put_nowait(("connecting", ctx.code))

    async def on_subscribed(self, ctx: Any) -> None:
        self.events.put_nowait(("subscribed", ctx.channel))

    async def on_unsubscribed(self, ctx: Any) -> None:
        self.events.put_nowait(("unsubscribed", ctx.channel))

    async def on_publication(self, ctx: Any) -> None:
        self.events.put_nowait(("publication", ctx.pub.data))

    async def next(self) -> tuple[str, Any]:
        return await asyncio.wait_for(self.events.get(), 60)

    async def subscribe(
        self, channel: str, claims: Mapping[str, Any] | None = None
    ) -> tuple[Subscription, SubscriptionRecorder]:
        """Subscribes, with a token of the *claims* if given."""
        recorder = SubscriptionRecorder(self.events)
        given = token(self.user, channel=channel, **claims) if claims is not None else ""
        subscription = self.client.new_subscription(channel, recorder, token=given)
        await subscribe(subscription)
        return subscription, recorder


async def subscribe(subscription: Subscription) -> None:
    await subscription.subscribe()
    await subscription.ready(timeout=60)
