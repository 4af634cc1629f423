# SPDX-License-Identifier: Apache-2.0
"""Endpoints of webhooks: real servers that do, byte for byte, what a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult

from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.notify.target import Delivery
from zaqar_redis.notify.targets.http import HttpTarget
from zaqar_redis.records import Message, Subscription
from zaqar_redis.service.subscription_options import SubscriptionOptions

LOOPBACK = HttpSettings(allowed_networks=("127.0.0.0/8",))

Writer = asyncio.StreamWriter
#: Serves one connection.
Serving = Callable[[asyncio.StreamReader, Writer], Coroutine[Any, Any, None]]
#: Turns of the event loop until a connection that was just accepted is handed over: three.
_TURNS_TO_ACCEPT = 5
#: Answers one request, or does not.
Answering = Callable[["ReceivedRequest", Writer], Awaitable[None]]


class ReceivedRequest(NamedTuple):
    line: str
    headers: Mapping[str, str]
    body: bytes


class WebhookEndpoint(NamedTuple):
    port: int
    received: list[ReceivedRequest]
    #: a token for each connection that was accepted, and for each that ended
    accepted: list[bool]
    ended: asyncio.Queue[bool]

    def count(self, path: str) -> int:
        """Returns how many requests for this path came."""
        return sum(path in request.line for request in self.received)

    def uri(self, path: str = "/", scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@contextlib.asynccontextmanager
async def raw_server(
    serve: Serving, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A server that speaks what *serve* says; yields its port."""
    served: list[tuple[Writer, asyncio.Task[None]]] = []

    def connected(reader: asyncio.StreamReader, writer: Writer) -> None:
        served.append((writer, asyncio.create_task(serve(reader, writer))))

    server = await asyncio.start_server(connected, host, port, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        # Accepts no more, and is handed what it has accepted: asyncio drops that without closing
        # it when its server is closed meanwhile.
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        server.close()
        for writer, task in served:
            writer.transport.abort()  # also that of a task which has not begun yet
            task.cancel()
        await asyncio.gather(*(task for _, task in served), return_exceptions=True)


@contextlib.asynccontextmanager
async def endpoint(
    answering: Answering, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[WebhookEndpoint]:
    received: list[ReceivedRequest] = []
    accepted: list[bool] = []
    ended: asyncio.Queue[bool] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
        accepted.append(True)
        try:
            while not writer.is_closing():
                request = await _read(reader)
                received.append(request)
                await answering(request, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client closed the connection
        finally:
            writer.close()
            ended.put_nowait(True)

    async with raw_server(serve, host, port, tls) as found:
        yield WebhookEndpoint(found, received, accepted, ended)


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    headers = {name.lower(): value for name, value in (each.split(": ", 1) for each in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(line, headers, body)


def answer(status: int, headers: str = "", body: bytes = b"") -> Answering:
    """Returns what answers with this status, these header lines, and this body."""

    async def answering(request: ReceivedRequest, writer: Writer) -> None:
        writer.write(
            f"HTTP/1.1 {status} x\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body
        )

    return answering


def sends(data: bytes, *, closes: bool = True) -> Answering:
    """Returns what sends these bytes, whatever they are, and closes the connection."""

    async def answering(request: ReceivedRequest, writer: Writer) -> None:
        writer.write(data)
        if closes:
            writer.close()

    return answering


class NamesOfTests(AbstractResolver):
    """Resolves a name to what the test says, each time to the next that it says."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = {name.replace("_", "."): found for name, found in answers.items()}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answers = self.answers[host]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(hostname=host, host=each, port=port, family=family, proto=0, flags=0)
            for each in found
        ]

    async def close(self) -> None:
        pass


@contextlib.asynccontextmanager
async def http_target(
    settings: HttpSettings = LOOPBACK, names: AbstractResolver | None = None
) -> AsyncIterator[HttpTarget]:
    target = HttpTarget(settings, names)
    try:
        yield target
    finally:
        await target.close()


MESSAGE = Message("m1", 1, 0, 60, b'{"n":1}', 1_700_000_000_123, 1_700_000_060_123)


def delivery(
    uri: str, *messages: Message, source: str = "q", notice: bytes = b"", **options: Any
) -> Delivery:
    raw = options.pop("raw", {})
    of = SubscriptionOptions(raw=raw, **options)
    return Delivery(
        "p",
        source,
        Subscription("s", source, uri, 60, 0, {}),
        of,
        () if notice else messages or (MESSAGE,),
        notice=notice,
        id="s-m1",
    )
