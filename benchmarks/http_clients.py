# SPDX-License-Identifier: Apache-2.0
"""What a webhook costs with each asynchronous HTTP client: requests a second, and CPU time of each.

    python -m benchmarks.http_clients --rounds 5

One process posts bodies of 256 bytes to one local endpoint, over connections that are kept, with
each client in turn; the endpoint is another process, and answers 204. The clients
are the sides of the comparison, so rates say more about them than about a network.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from statistics import median
from typing import Any

import aiohttp
import httpx
import uvloop

from benchmarks.support.rounds import in_turns, print_progress
from benchmarks.support.webhook_endpoint import WebhookEndpoint204
from zaqar_redis.benchmarks import report

_BODY = b"x" * 256
_HEADERS = {"Content-Type": "application/json"}

#: Posts one body, and reads the answer.
Post = Callable[[], Awaitable[object]]


@contextlib.asynccontextmanager
async def aiohttp_posts(uri: str, concurrency: int, body: bytes = _BODY) -> AsyncIterator[Post]:
    connector = aiohttp.TCPConnector(limit=concurrency)

    async def post() -> None:
        async with session.post(uri, data=body, headers=_HEADERS) as answer:
            await answer.read()

    async with aiohttp.ClientSession(connector=connector) as session:
        yield post


@contextlib.asynccontextmanager
async def _httpx(uri: str, concurrency: int) -> AsyncIterator[Post]:
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    verify = ssl.create_default_context()
    async with httpx.AsyncClient(limits=limits, verify=verify, trust_env=False) as client:
        yield lambda: client.post(uri, content=_BODY, headers=_HEADERS)


@contextlib.asynccontextmanager
async def _niquests(uri: str, concurrency: int) -> AsyncIterator[Post]:
    niquests: Any = importlib.import_module("niquests")
    async with niquests.AsyncSession(
        pool_connections=1, pool_maxsize=concurrency, disable_http2=True, disable_http3=True
    ) as client:
        client.trust_env = False
        yield lambda: client.post(uri, data=_BODY, headers=_HEADERS)


CLIENTS = {"aiohttp": aiohttp_posts, "httpx": _httpx, "niquests": _niquests}


async def _measure(name: str, uri: str, concurrency: int, seconds: float) -> tuple[float, float]:
    """Returns requests a second, and microseconds of CPU time for each."""
    done = 0

    async def send(post: Post) -> None:
        nonlocal done
        while time.monotonic() < end:
            await post()
            done += 1

    async with CLIENTS[name](uri, concurrency) as post:
        await asyncio.gather(*(post() for _ in range(concurrency)))  # opens the connections
        begun, used = time.monotonic(), time.process_time()
        end = begun + seconds
        await asyncio.gather(*(send(post) for _ in range(concurrency)))
        passed, used = time.monotonic() - begun, time.process_time() - used
    return done / passed, used / done * 1e6


def run(names: list[str], concurrencies: list[int], rounds: int, seconds: float) -> str:
    with contextlib.ExitStack() as stack:
        uri = WebhookEndpoint204(stack).url
        rows = [
            row
            for concurrency in concurrencies
            for row in _compared(names, uri, concurrency, rounds, seconds)
        ]
    return report.table(["client", "concurrency", "requests/s", "CPU µs of each"], rows)


def _compared(
    names: list[str], uri: str, concurrency: int, rounds: int, seconds: float
) -> list[list[str]]:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number, order in in_turns(names, rounds, first=0):
        for name in order:
            measured = uvloop.run(_measure(name, uri, concurrency, seconds if number else 0.5))
            if number:
                found[name].append(measured)
                print_progress(f"{name}, {concurrency}: {measured[0]:.0f} requests/s")
    return [
        [name, str(concurrency), *(f"{median(each):.0f}" for each in zip(*costs, strict=True))]
        for name, costs in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round")
    parser.add_argument("--concurrency", type=int, nargs="*", default=[8, 64])
    parser.add_argument("--client", nargs="*", choices=CLIENTS, default=list(CLIENTS))
    args = parser.parse_args()
    print(run(args.client, args.concurrency, args.rounds, args.seconds))


if __name__ == "__main__":
    main()
