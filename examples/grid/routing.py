# SPDX-License-Identifier: Apache-2.0
"""A client of the routing service: messages for people, not for places.

Channels carry what happens in a square.  Messages to one user, to a role, to a team (a topic)
or to everybody go by ``POST /api/send``, whichever node they are connected to.
"""

from __future__ import annotations

from typing import Any, Literal

import aiohttp

Route = Literal["user", "role", "broadcast", "connection", "topic"]
#: Seconds for an answer of a node on this machine.
_TIMEOUT = aiohttp.ClientTimeout(total=5)


class RoutingFailed(Exception):
    """A node refused a request, or did not answer it."""


class RoutingClient:
    """Asks the server API of the node at *url*."""

    def __init__(self, url: str, api_key: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(headers={"X-API-Key": api_key}, timeout=_TIMEOUT)

    async def send(self, route: Route, target: str, kind: str, payload: dict[str, Any]) -> None:
        """Sends a message of type *kind*.  Raises RoutingFailed."""
        asked = {"route": route, "type": kind, "payload": payload}
        await self._ask("send", asked | ({"target": target} if target else {}))

    async def join(self, client: str, topic: str) -> None:
        """Subscribes the connection with the id *client* to a topic.  Raises RoutingFailed."""
        await self._ask("topic_subscribe", {"client": client, "topic": topic})

    async def connections(self) -> dict[str, int]:
        """Returns the number of connections of each node, by its name.  Raises RoutingFailed."""
        found = await self._ask("info", {})
        return {node["name"]: node.get("num_clients", 0) for node in found["nodes"]}

    async def close(self) -> None:
        await self._session.close()

    async def _ask(self, method: str, asked: dict[str, Any]) -> Any:
        try:
            async with self._session.post(f"{self._url}/api/{method}", json=asked) as response:
                text = await response.text()
                if response.status != 200:
                    raise RoutingFailed(f"{self._url}/api/{method}: {response.status}: {text}")
                answer = await response.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise RoutingFailed(f"{self._url}/api/{method}: {error!r}") from error
        if "error" in answer:
            raise RoutingFailed(f"{self._url}/api/{method}: {answer['error']['message']}")
        return answer["result"]
