# SPDX-License-Identifier: Apache-2.0
"""The client: one service, one project."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self
from urllib.parse import quote
from weakref import WeakValueDictionary

from zaqar_redis_client.credentials import Credential, Token
from zaqar_redis_client.http import Connection
from zaqar_redis_client.queues import AsyncQueue, AsyncTopic


class AsyncClient:
    """Requests to one service, for one project.

    *url*: without `/v2`.  *credential*: a token, or one of `credentials`; None: the service trusts
    *project*.  *connections*: for requests, beside one for each long poll.  *retry_for*: seconds
    for which a request that can be repeated is tried, while the service is away or has too much to
    do.

    It belongs to the event loop in which it is used first.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8888",
        project: str | None = None,
        *,
        credential: Credential | str | None = None,
        connections: int = 100,
        retry_for: float = 30.0,
    ) -> None:
        if isinstance(credential, str):
            credential = Token(credential)
        self._connection = Connection(url, project, credential, connections, retry_for)
        #: by which a claim names who made it
        self.client_id = self._connection.client_id
        # So what tasks post that name a queue anew leaves together, too.
        self._queues: WeakValueDictionary[str, AsyncQueue] = WeakValueDictionary()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._connection.close()

    async def is_extended(self) -> bool:
        """Returns whether the service is zaqar_redis, and not stock Zaqar."""
        return await self._connection.is_extended()

    def queue(self, name: str) -> AsyncQueue:
        """Returns the same object for a name as long as somebody has it."""
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = AsyncQueue(self._connection, name)
        return found

    def topic(self, name: str) -> AsyncTopic:
        return AsyncTopic(self._connection, name)

    async def queues(self) -> AsyncIterator[str]:
        """Lists the names of the queues."""
        async for queue in self._listed("/v2/queues", "queues"):
            yield queue["name"]

    def schedules(self) -> AsyncIterator[dict[str, Any]]:
        """Lists the recurring posts."""
        return self._listed("/v2/schedules", "schedules")

    async def set_schedule(self, name: str, /, **fields: Any) -> dict[str, Any]:
        """Creates or replaces a recurring post; *fields*: those of `PUT /v2/schedules/…`."""
        path = f"/v2/schedules/{quote(name, safe='')}"
        return await self._connection.document("PUT", path, fields, repeatable=False)

    async def delete_schedule(self, name: str) -> None:
        path = f"/v2/schedules/{quote(name, safe='')}"
        await self._connection.send("DELETE", path, repeatable=False)

    async def _listed(self, path: str, what: str) -> AsyncIterator[dict[str, Any]]:
        marker = ""
        while True:
            asked = f"?marker={quote(marker, safe='')}" if marker else ""
            answer = await self._connection.send("GET", path + asked)
            page = (answer.document or {}).get(what, [])
            if not page or page[-1]["name"] == marker:  # stock Zaqar repeats a single one
                return
            for item in page:
                yield item
            marker = page[-1]["name"]
