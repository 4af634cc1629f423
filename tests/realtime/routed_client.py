# SPDX-License-Identifier: Apache-2.0
"""A client that collects the messages of the routing service."""

from __future__ import annotations

import asyncio
import contextlib
import json
from types import TracebackType
from typing import Any, Self

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.realtime.sdk_client import KEY, token
from tests.support import servers


class RoutedClient:
    """Connected from entry to exit; answers pings."""

    def __init__(self, service: servers.RunningService, user: str, **claims: Any) -> None:
        self._url = f"ws://127.0.0.1:{service.port}/connection/websocket"
        self._token = token(user, **claims)
        self.id = ""
        #: payloads, in order
        self.received: list[Any] = []

    async def __aenter__(self) -> Self:
        self._socket: ClientConnection = await connect(self._url)
        await self._socket.send(json.dumps({"id": 1, "connect": {"token": self._token}}))
        self.id = json.loads(await self._socket.recv())["connect"]["client"]
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._socket.close()
        await self._reader

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                for line in str(await self._socket.recv()).split("\n"):
                    reply = json.loads(line)
                    if "push" in reply:
                        self.received.append(reply["push"]["message"]["data"]["payload"])
                    elif not reply:
                        await self._socket.send("{}")


class NodeApi:
    """Calls methods of one node."""

    def __init__(self, service: servers.RunningService) -> None:
        self._http = httpx.AsyncClient(
            base_url=f"{service.url}/api/", headers={"X-API-Key": KEY}, timeout=30
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def call(self, method: str, **body: Any) -> dict[str, Any]:
        """Returns the answer: it has a result or an error."""
        answer: dict[str, Any] = (await self._http.post(method, json=body)).json()
        return answer

    async def send(self, route: str, target: str, payload: Any) -> bool:
        answer = await self.call("send", route=route, target=target, type="t", payload=payload)
        return "result" in answer

    async def subscribe(self, client: RoutedClient, topic: str) -> None:
        await self.call("topic_subscribe", client=client.id, topic=topic)

    async def unsubscribe(self, client: RoutedClient, topic: str) -> None:
        await self.call("topic_unsubscribe", client=client.id, topic=topic)

    async def subscribers(self, topic: str) -> set[str]:
        found = await self.call("topic_subscribers", topic=topic)
        return set(found["result"]["clients"])
