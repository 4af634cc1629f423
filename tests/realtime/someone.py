# SPDX-License-Identifier: Apache-2.0
"""Clients of channels, by centrifuge-python, that note down what happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from centrifuge import Client, ClientEventHandler, Subscription, SubscriptionEventHandler

from tests import servers

#: Marks of modules that use them: centrifuge-python leaves sockets that the server closed to
#: the collector.
LEFT_BEHIND = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("collected"),
]

#: What operators show at the server API, and what tokens are signed with.
KEY = "the operator's key"
SECRET = "a secret that is long enough for HS256"


def token(user: str, **claims: Any) -> str:
    return jwt.encode({"sub": user} | claims, SECRET, algorithm="HS256")


class Hears(SubscriptionEventHandler):  # type: ignore[misc]  # it is untyped
    """Notes down a subscription that the client asked for."""

    def __init__(self, news: asyncio.Queue[tuple[str, Any]]) -> None:
        self._news = news
        self.publications: list[Any] = []
        self.recovered: list[bool] = []

    async def on_subscribed(self, ctx: Any) -> None:
        if ctx.was_recovering:
            self.recovered.append(ctx.recovered)

    async def on_publication(self, ctx: Any) -> None:
        self.publications.append(ctx.pub)
        self._news.put_nowait(("publication", ctx.pub.data))

    async def on_unsubscribed(self, ctx: Any) -> None:
        self._news.put_nowait(("unsubscribed", ctx.code))


class Someone(ClientEventHandler):  # type: ignore[misc]  # it is untyped
    """Notes down the rest, and what the server subscribes it to."""

    def __init__(self, service: servers.Service, user: str, **claims: Any) -> None:
        self.user = user
        self.news: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        url = f"ws://127.0.0.1:{service.port}/connection/websocket"
        self.client = Client(url, token=token(user, **claims), events=self, max_reconnect_delay=1)

    async def __aenter__(self) -> Someone:
        await self.client.connect()
        await self.client.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.disconnect()

    async def on_disconnected(self, ctx: Any) -> None:
        self.news.put_nowait(("disconnected", (ctx.code, ctx.reason)))

    async def on_connecting(self, ctx: Any) -> None:
        if ctx.code:  # again
            self.news.put_nowait(("connecting", ctx.code))

    async def on_subscribed(self, ctx: Any) -> None:
        self.news.put_nowait(("subscribed", ctx.channel))

    async def on_unsubscribed(self, ctx: Any) -> None:
        self.news.put_nowait(("unsubscribed", ctx.channel))

    async def on_publication(self, ctx: Any) -> None:
        self.news.put_nowait(("publication", ctx.pub.data))

    async def next(self) -> tuple[str, Any]:
        return await asyncio.wait_for(self.news.get(), 60)

    async def subscribe(
        self, channel: str, claims: Mapping[str, Any] | None = None
    ) -> tuple[Subscription, Hears]:
        """With a token that has the *claims*, if any."""
        hears = Hears(self.news)
        given = token(self.user, channel=channel, **claims) if claims is not None else ""
        subscription = self.client.new_subscription(channel, hears, token=given)
        await subscription.subscribe()
        await subscription.ready(timeout=60)
        return subscription, hears


async def until(condition: Any, what: str, seconds: float = 60.0) -> None:
    """Let time pass until *condition* is true."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  # any condition, not an event
                await asyncio.sleep(0.01)
    except TimeoutError as error:
        raise TimeoutError(what) from error
