# SPDX-License-Identifier: Apache-2.0
"""How soon all clients are back that lost their connections, and have what they missed.

They come back all at once, without the delays that SDKs have, and each has a token that is
checked.  Two workers share two cores with Redis and the clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec

from tests import servers
from tests.benchmarks import house
from tests.benchmarks.channels_fanout import started
from tests.benchmarks.crowd import Crowd
from tests.benchmarks.found import Found
from tests.benchmarks.returning import SECRET, joining, subscribed
from tests.benchmarks.rounds import cpu_seconds, tell
from zaqar_redis.bench.service import Failed
from zaqar_redis.realtime import packing, wire
from zaqar_redis.realtime.engine import Keep
from zaqar_redis.realtime.engines.redis import RedisEngine

_WORKERS = 2
_CHANNELS = 100
#: Publications that everybody missed.
_MISSED = 50
_KEEP = Keep(size=100, ttl=300, meta_ttl=3600)
#: Makes 150 bytes of JSON.
_FILL = "x" * 130
#: Handshakes at a time: what the queue of a listening socket takes (gunicorn's is 2048).
_AT_ONCE = 1000


def measure(found: Found, runner: asyncio.Runner, rounds: int, clients: int) -> None:
    part = "recovery"
    seconds = found.figure(part, f"{clients} clients are back", "s", ("<", 10))
    cpu = found.figure(part, "CPU of the workers, each client", "ms")
    with contextlib.ExitStack() as stack:
        store = house.redis_server(stack)
        channels: dict[str, object] = {
            "token_hmac_secret_key": SECRET,
            "allow_subscribe_for_client": True,
            "history_size": _KEEP.size,
            "history_ttl": _KEEP.ttl,
            "force_recovery": True,
        }
        running = stack.enter_context(
            servers.service(store.uri, workers=_WORKERS, options={"channels": channels})
        )
        servers.wait_for(lambda: len(running.workers()) == _WORKERS, "all workers to start")
        workers = running.workers()
        engine = started(stack, runner, store.uri)
        # Every channel has a history, and an epoch.
        runner.run(_publish(engine, 1))
        for number in range(1, rounds + 1):
            known = _join(running.port, clients)
            runner.run(_publish(engine, _MISSED))
            used = sum(map(cpu_seconds, workers))
            seconds.append(_come_back(running.port, known))
            cpu.append((sum(map(cpu_seconds, workers)) - used) / clients * 1e3)
            tell(f"{part}: round {number} of {rounds}: {seconds[-1]:.2f} s")


def _channel(number: int) -> str:
    return f"channel-{number % _CHANNELS}"


def _join(port: int, clients: int) -> list[wire.Stream]:
    """Where each was when all connections were lost."""
    crowd = Crowd(port, "/connection/websocket")
    with contextlib.closing(crowd):
        peers = crowd.grow([joining(n, _channel(n)) for n in range(clients)], _AT_ONCE)
        answers = list(map(subscribed, peers))
    return [wire.Stream(answer.offset, answer.epoch) for answer in answers]


def _come_back(port: int, known: list[wire.Stream]) -> float:
    """Seconds until all have what they missed.  Raises Failed when one has not."""
    crowd = Crowd(port, "/connection/websocket")
    dialogues = [joining(n, _channel(n), since) for n, since in enumerate(known)]
    with contextlib.closing(crowd):
        start = time.perf_counter()
        peers = crowd.grow(dialogues, _AT_ONCE)
        took = time.perf_counter() - start
        for peer, since in zip(peers, known, strict=True):
            answer = subscribed(peer)
            offsets = [each.offset for each in answer.publications]
            expected = range(since.offset + 1, since.offset + 1 + _MISSED)
            if not answer.recovered or offsets != list(expected):
                raise Failed(f"a client is back with {len(offsets)} publications")
    return took


async def _publish(engine: RedisEngine, times: int) -> None:
    for number in range(times):
        data = msgspec.json.encode({"n": number, "data": _FILL})
        payload = packing.publication(msgspec.Raw(data), round(time.time() * 1000))
        await asyncio.gather(
            *(
                engine.history.publish(f"default/{_channel(n)}", payload, _KEEP)
                for n in range(_CHANNELS)
            )
        )
