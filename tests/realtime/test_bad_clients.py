# SPDX-License-Identifier: Apache-2.0
"""Misbehaving clients: each gets its error, and other clients are unaffected.

One worker, so that all of them share it with a well-behaved client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.realtime.crowd import until
from tests.realtime.sdk_client import IGNORE_UNCLOSED_SOCKETS, KEY, SECRET, SdkClient, token
from tests.support import servers
from tests.support.servers import RunningService

pytestmark = IGNORE_UNCLOSED_SOCKETS

OPTIONS: dict[str, dict[str, object]] = {
    "channels": {
        "token_hmac_secret_key": SECRET,
        "api_key": KEY,
        "presence": True,
        "history_size": 500,
        "history_ttl": 60,
        "force_recovery": True,
        "allow_subscribe_for_client": True,
        "allow_publish_for_subscriber": True,
        "allow_history_for_subscriber": True,
        "user_connection_limit": 5,
    }
}


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with (
        servers.redis_server() as server,
        servers.service(server.uri, workers=1, options=OPTIONS) as running,
    ):
        yield running


class RawClient:
    """A client that sends arbitrary frames."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, *commands: dict[str, Any]) -> None:
        await self.socket.send("\n".join(map(json.dumps, commands)))

    async def replies(self, number: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(60):
            while len(found) < number:
                frame = await self.socket.recv()
                lines = (json.loads(line) for line in str(frame).splitlines())
                found += [line for line in lines if "id" in line]
        return found

    async def code(self) -> int:
        """Returns the code with which the server closes the socket."""
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionClosed):
                while True:
                    await self.socket.recv()
            assert self.socket.close_code is not None
            return self.socket.close_code


@asynccontextmanager
async def raw(service: RunningService, user: str | None = "bad") -> AsyncIterator[RawClient]:
    """Yields a client that is connected as *user*, or not connected for None."""
    url = f"ws://127.0.0.1:{service.port}/connection/websocket"
    async with connect(url, max_size=None, compression=None) as socket:
        client = RawClient(socket)
        if user is not None:
            await client.send({"id": 1, "connect": {"token": token(user)}})
            await client.replies(1)
        yield client


async def publish_numbers(service: RunningService, channel: str, number: int) -> None:
    async with httpx.AsyncClient(headers={"X-API-Key": KEY}, timeout=60) as client:
        for n in range(number):
            body = {"channel": channel, "data": n}
            answer = await client.post(f"{service.url}/api/publish", json=body)
            assert "result" in answer.json()


def run_beside_good_client(service: RunningService, *scenes: Any) -> None:
    """Runs all scenes at once; checks that a well-behaved subscriber misses nothing."""

    async def scenario() -> None:
        channel = f"good-{uuid.uuid4()}"
        async with SdkClient(service, "good") as good:
            _, recorder = await good.subscribe(channel)
            async with asyncio.TaskGroup() as group:
                for scene in scenes:
                    group.create_task(scene())
                group.create_task(publish_numbers(service, channel, 300))
            await until(lambda: len(recorder.publications) == 300, "all publications")
            assert [each.data for each in recorder.publications] == list(range(300))
            assert recorder.recovered == []

    asyncio.run(scenario())


def test_malformed_frame_closes_only_its_own_connection(service: RunningService) -> None:
    async def garbage() -> None:
        for frame in ("{", "[]", '{"id": 1}{"id": 2}', "\x00" * 10, b"\xff\xfe", ""):
            async with raw(service) as client:
                await client.socket.send(frame)
                assert await client.code() == 3501

    async def second_connect() -> None:
        async with raw(service) as client:
            await client.send({"id": 2, "connect": {"token": token("bad")}})
            assert await client.code() == 3501

    async def too_large() -> None:
        async with raw(service) as client:
            await client.send({"id": 2, "publish": {"channel": "x", "data": "x" * 70_000}})
            assert await client.code() == 1009

    async def wrong_token() -> None:
        async with raw(service, None) as client:
            await client.send({"id": 1, "connect": {"token": token("bad") + "x"}})
            assert await client.code() == 3500

    async def first_something_else() -> None:
        async with raw(service, None) as client:
            await client.send({"id": 1, "subscribe": {"channel": "x"}})
            assert await client.code() == 3501

    run_beside_good_client(
        service, garbage, second_connect, too_large, wrong_token, first_something_else
    )


def test_exceeded_channel_and_connection_limits_are_reported(service: RunningService) -> None:
    async def too_many_channels() -> None:
        async with raw(service, "many") as client:
            await client.send(
                *({"id": n, "subscribe": {"channel": f"many-{n}"}} for n in range(2, 131))
            )
            replies = await client.replies(129)
            assert all("subscribe" in reply for reply in replies[:128])
            assert replies[128]["error"]["code"] == 106

    async def too_many_connections() -> None:
        async with asyncio.TaskGroup() as group:
            stop = asyncio.Event()
            ready = [asyncio.Event() for _ in range(5)]

            async def stay(number: int) -> None:
                async with raw(service, "crowd"):
                    ready[number].set()
                    await stop.wait()

            for number in range(5):
                group.create_task(stay(number))
            for each in ready:
                await each.wait()
            async with raw(service, None) as client:
                await client.send({"id": 1, "connect": {"token": token("crowd")}})
                assert await client.code() == 3504
            stop.set()

    run_beside_good_client(service, too_many_channels, too_many_connections)


def test_command_flood_is_answered_in_order_without_delaying_others(
    service: RunningService,
) -> None:
    async def flood() -> None:
        async with raw(service, "flood") as client:
            await client.send({"id": 2, "subscribe": {"channel": "flood"}})
            await client.replies(1)
            ids = range(3, 3003)
            for start in range(0, len(ids), 100):
                await client.send(
                    *(
                        {"id": id, "history": {"channel": "flood", "limit": 1}}
                        for id in ids[start : start + 100]
                    )
                )
            assert [reply["id"] for reply in await client.replies(len(ids))] == list(ids)

    run_beside_good_client(service, flood)


def test_client_that_does_not_read_is_closed_as_slow(service: RunningService) -> None:
    async def slow() -> None:
        async with raw(service, "slow") as client:
            await client.send({"id": 2, "subscribe": {"channel": "wide"}})
            await client.replies(1)
            # The client stops reading: its buffers fill up, then the server's.
            client.socket.transport.pause_reading()
            async with httpx.AsyncClient(headers={"X-API-Key": KEY}, timeout=60) as publisher:
                for _ in range(300):
                    body = {"channel": "wide", "data": "x" * 50_000}
                    await publisher.post(f"{service.url}/api/publish", json=body)
                    found = await publisher.post(
                        f"{service.url}/api/channels", json={"pattern": "wide"}
                    )
                    if not found.json()["result"]["channels"]:
                        break  # it is being closed, and waits for the client only for a while
            client.socket.transport.resume_reading()
            assert await client.code() == 3008

    run_beside_good_client(service, slow)
    log = service.log.read_text()
    assert (
        "disconnected a client (websocket): 3008 slow action=client_disconnected user=slow" in log
    )


def test_vanished_clients_leave_presence_soon(service: RunningService) -> None:
    async def present() -> int:
        async with httpx.AsyncClient(headers={"X-API-Key": KEY}, timeout=60) as client:
            asked = {"channel": "crowd"}
            answer = await client.post(f"{service.url}/api/presence_stats", json=asked)
            number: int = answer.json()["result"]["num_clients"]
            return number

    async def vanish() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(one(number))
        async with asyncio.timeout(30):  # half of the presence TTL
            while await present():  # noqa: ASYNC110  # state of another process
                await asyncio.sleep(0.1)

    async def one(number: int) -> None:
        async with raw(service, f"ghost-{number}") as client:
            await client.send({"id": 2, "subscribe": {"channel": "crowd"}})
            await client.replies(1)
            assert await present() > 0
            client.socket.transport.abort()

    run_beside_good_client(service, vanish)
