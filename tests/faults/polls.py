# SPDX-License-Identifier: Apache-2.0
"""Long polls as bare connections: hundreds of them are cheap for a test."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

from tests.support.servers import RedisServer, RunningService
from zaqar_redis.keyspace.script import Script


class PendingClaim:
    """One waiting claim request; its response is read when it arrives."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.answer: asyncio.Task[tuple[int, Any]] = asyncio.create_task(answer_of(reader))

    async def leave(self) -> None:
        """Closes the connection, answered or not."""
        self.answer.cancel()
        await asyncio.gather(self.answer, return_exceptions=True)
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


class LongPollClients:
    """Waiting clients of one queue; all are disconnected at the end of the context."""

    def __init__(self, service: RunningService, project: str, queue: str, wait: int = 30) -> None:
        self._service = service
        self._project = project
        self._path = f"/v2/queues/{queue}/claims?limit=1&wait={wait}"
        self.polls: list[PendingClaim] = []

    async def __aenter__(self) -> LongPollClients:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*[poll.leave() for poll in self.polls])

    async def claim(self, count: int) -> list[PendingClaim]:
        """Adds *count* clients, each of which claims one message."""
        arrived = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._service.port)
            writer.write(request("POST", self._path, self._project, 0))
            arrived.append(PendingClaim(reader, writer))
        self.polls += arrived
        return arrived


async def answered(waiting: list[PendingClaim], count: int) -> None:
    """Waits until *count* of them have a response."""
    pending = [poll.answer for poll in waiting]
    async with asyncio.timeout(60):
        while len(waiting) - len(pending) < count:
            pending = [answer for answer in pending if not answer.done()]
            if len(waiting) - len(pending) < count:
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)


def request(method: str, path: str, project: str, length: int) -> bytes:
    """Returns the head of a request whose body has *length* bytes."""
    lines = (
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"Client-ID: {uuid.uuid4()}",
        f"X-Project-ID: {project}",
        f"Content-Length: {length}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, Any]:
    """Returns status and document.  Raises IncompleteReadError without a response."""
    head = await reader.readuntil(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    lengths = [line.split(":")[1] for line in fields if line.lower().startswith("content-length:")]
    body = await reader.readexactly(int(lengths[0])) if lengths else b""
    return int(status.split()[1]), json.loads(body) if body else None


def record_commands(redis: RedisServer) -> None:
    """Lets Redis record commands from now on, more than a test has."""
    with redis.client() as console:
        console.config_set("slowlog-max-len", 100_000)
        console.config_set("slowlog-log-slower-than", 0)
        console.slowlog_reset()


def recorded_claims(redis: RedisServer) -> int:
    """Returns how many claims were tried since `record_commands`.

    Not how many scripts were run: a service runs some each second, whatever its clients do.
    """
    call = f"EVALSHA {Script('claim_create').sha} ".encode()
    with redis.client() as console:
        return sum(each["command"].startswith(call) for each in console.slowlog_get(100_000))


async def settled(redis: RedisServer, least: int) -> int:
    """Returns `recorded_claims`, once they are at least *least* and no longer grow."""
    async with asyncio.timeout(60):
        before, now = -1, recorded_claims(redis)
        while now < least or now != before:
            await asyncio.sleep(0.3)
            before, now = now, recorded_claims(redis)
    return now
