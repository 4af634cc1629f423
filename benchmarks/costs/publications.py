# SPDX-License-Identifier: Apache-2.0
"""What a publication costs that a client sends over its WebSocket, and nobody receives."""

from __future__ import annotations

import contextlib
import time

from benchmarks.channels.websocket_peers import Dialogue, WebSocketPeers
from benchmarks.support.figures import Figures
from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import print_progress
from tests.support import servers
from zaqar_redis.benchmarks.service import BenchmarkFailed

#: Clients, each with one publication in flight.
_CLIENTS = 32
_JOIN: Dialogue = [(b'{"id":1,"connect":{}}', lambda data: b'"id":1' in data)]
#: 150 bytes of JSON as data.
_PUBLISH = (
    b'{"id":7,"publish":{"channel":"news","data":{"number":12345,"note":"' + b"x" * 123 + b'"}}}'
)
_PUBLISHED = b'{"id":7,"publish":{}}'
#: Timeout of one publication.
_ANSWER_TIMEOUT_SECONDS = 20.0
#: Channels without history, and with it.
_KINDS: dict[str, dict[str, object]] = {
    "publication": {},
    "publication, kept": {"history_size": 100, "history_ttl": 300},
}


def measure(figures: Figures, rounds: int, seconds: float) -> None:
    for name, options in _KINDS.items():
        whose = ("worker, CPU µs", "Redis, CPU µs")
        kept = [figures.figure(name, what, "µs") for what in whose]
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(servers.redis_server())
            channels = {"insecure": True, "ping_interval": 3600, **options}
            running = stack.enter_context(
                servers.service(store.uri, options={"channels": channels})
            )
            peers = WebSocketPeers(running.port)
            stack.callback(peers.close)
            peers.connect([_JOIN] * _CLIENTS, _CLIENTS)
            processes = (*running.workers(), store.pid)
            for number in range(rounds + 1):
                before = [cpu_seconds(each) for each in processes]
                done = _publish(peers, seconds)
                used = [
                    cpu_seconds(each) - start for each, start in zip(processes, before, strict=True)
                ]
                if number:  # the first is to warm up
                    for values, value in zip(kept, used, strict=True):
                        values.append(value / done * 1e6)
                    print_progress(f"{name}: round {number} of {rounds}, {kept[0][-1]:.1f} µs")


def _publish(peers: WebSocketPeers, seconds: float) -> int:
    """Publishes from all clients; returns how many publications were acknowledged."""
    done = in_flight = 0
    end = time.perf_counter() + seconds
    for peer in peers.peers.values():
        peer.data = b""
        peer.send(_PUBLISH)
        in_flight += 1
    while in_flight:
        answered = 0
        for peer in peers.poll(_ANSWER_TIMEOUT_SECONDS):
            if not peer.data.endswith(_PUBLISHED):
                raise BenchmarkFailed(f"a publication was answered by {peer.data[-200:]!r}")
            peer.data = b""
            answered += 1
            if time.perf_counter() < end:
                peer.send(_PUBLISH)
                in_flight += 1
        if not answered:
            raise BenchmarkFailed(f"{in_flight} publications were not answered")
        done += answered
        in_flight -= answered
    return done
