# SPDX-License-Identifier: Apache-2.0
"""How soon all clients have recovered after they lost their connections.

They reconnect all at once, without the delays of SDKs, and the token of each is verified.
Two workers share two cores with Redis and the clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec

from benchmarks.channels.dialogues import SECRET, join_dialogue, subscribe_result
from benchmarks.channels.fanout import start_engine
from benchmarks.channels.websocket_peers import WebSocketPeers
from benchmarks.support.figures import Figures
from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import print_progress
from tests.support import servers
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.realtime.engine import HistoryOptions
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.node import packing
from zaqar_redis.realtime.protocol import wire

_WORKERS = 2
_CHANNELS = 100
#: Publications that every client has missed.
_MISSED = 50
_HISTORY_OPTIONS = HistoryOptions(size=100, ttl=300, meta_ttl=3600)
#: Fills a publication up to 150 bytes of JSON.
_FILL = "x" * 130
#: Handshakes at a time: within the backlog of a listening socket (gunicorn's is 2048).
_AT_ONCE = 1000


def measure(figures: Figures, runner: asyncio.Runner, rounds: int, clients: int) -> None:
    part = "recovery"
    seconds = figures.figure(part, f"{clients} clients are back", "s", ("<", 10))
    cpu = figures.figure(part, "CPU of the workers, each client", "ms")
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(servers.redis_server())
        channels: dict[str, object] = {
            "token_hmac_secret_key": SECRET,
            "allow_subscribe_for_client": True,
            "history_size": _HISTORY_OPTIONS.size,
            "history_ttl": _HISTORY_OPTIONS.ttl,
            "force_recovery": True,
        }
        running = stack.enter_context(
            servers.service(store.uri, workers=_WORKERS, options={"channels": channels})
        )
        servers.wait_for(lambda: len(running.workers()) == _WORKERS, "all workers to start")
        workers = running.workers()
        engine = start_engine(stack, runner, store.uri)
        # Every channel has a history, and an epoch.
        runner.run(_publish(engine, 1))
        for number in range(1, rounds + 1):
            positions = _join(running.port, clients)
            runner.run(_publish(engine, _MISSED))
            used = sum(map(cpu_seconds, workers))
            seconds.append(_reconnect(running.port, positions))
            cpu.append((sum(map(cpu_seconds, workers)) - used) / clients * 1e3)
            print_progress(f"{part}: round {number} of {rounds}: {seconds[-1]:.2f} s")


def _channel(number: int) -> str:
    return f"channel-{number % _CHANNELS}"


def _join(port: int, clients: int) -> list[wire.StreamPosition]:
    """Subscribes all clients and drops them; returns their stream positions."""
    websocket_peers = WebSocketPeers(port)
    with contextlib.closing(websocket_peers):
        peers = websocket_peers.connect(
            [join_dialogue(n, _channel(n)) for n in range(clients)], _AT_ONCE
        )
        answers = list(map(subscribe_result, peers))
    return [wire.StreamPosition(answer.offset, answer.epoch) for answer in answers]


def _reconnect(port: int, positions: list[wire.StreamPosition]) -> float:
    """Returns the seconds until all have recovered.  Raises BenchmarkFailed if one has not."""
    websocket_peers = WebSocketPeers(port)
    dialogues = [join_dialogue(n, _channel(n), position) for n, position in enumerate(positions)]
    with contextlib.closing(websocket_peers):
        start = time.perf_counter()
        peers = websocket_peers.connect(dialogues, _AT_ONCE)
        took = time.perf_counter() - start
        for peer, position in zip(peers, positions, strict=True):
            answer = subscribe_result(peer)
            offsets = [each.offset for each in answer.publications]
            expected = range(position.offset + 1, position.offset + 1 + _MISSED)
            if not answer.recovered or offsets != list(expected):
                raise BenchmarkFailed(f"a client recovered {len(offsets)} publications")
    return took


async def _publish(engine: RedisEngine, times: int) -> None:
    for number in range(times):
        data = msgspec.json.encode({"n": number, "data": _FILL})
        payload = packing.pack_publication(msgspec.Raw(data), round(time.time() * 1000))
        await asyncio.gather(
            *(
                engine.history.publish(f"default/{_channel(n)}", payload, _HISTORY_OPTIONS)
                for n in range(_CHANNELS)
            )
        )
