# SPDX-License-Identifier: Apache-2.0
"""What idle connections cost a worker.

Each has a token, a user of its own and one subscription, and answers pings.
"""

from __future__ import annotations

import contextlib
import time

from benchmarks.channels.dialogues import SECRET, join_dialogue
from benchmarks.channels.websocket_peers import WebSocketPeers
from benchmarks.support.figures import Figures
from benchmarks.support.processes import cpu_seconds, resident_bytes
from benchmarks.support.rounds import print_progress
from tests.support import servers
from zaqar_redis.benchmarks.service import BenchmarkFailed

#: Channels that the clients share.
_CHANNELS = 100
#: Clients that connect at a time.
_AT_ONCE = 200


def measure(figures: Figures, rounds: int, seconds: int, clients: int) -> None:
    """Measures idle connections over two ping intervals of *seconds*."""
    part = "idle"
    resident = figures.figure(part, f"worker with {clients} connections", "MB", ("≤", 300))
    base = figures.figure(part, "worker without", "MB")
    each = figures.figure(part, "each connection", "KB")
    connects = figures.figure(part, "connect and subscribe", "clients/s")
    cpu = figures.figure(part, f"CPU with a ping each every {seconds} s", "% of a core")
    for number in range(1, rounds + 1):
        with contextlib.ExitStack() as stack:
            running = _service(stack, seconds)
            [worker] = running.workers()
            before = resident_bytes(worker)
            websocket_peers = WebSocketPeers(running.port)
            stack.callback(websocket_peers.close)
            dialogues = [join_dialogue(n, f"channel-{n % _CHANNELS}") for n in range(clients)]
            start = time.perf_counter()
            websocket_peers.connect(dialogues, _AT_ONCE)
            connects.append(clients / (time.perf_counter() - start))
            used, start = cpu_seconds(worker), time.perf_counter()
            _idle(websocket_peers, 2 * seconds)
            cpu.append((cpu_seconds(worker) - used) / (time.perf_counter() - start) * 100)
            after = resident_bytes(worker)
            resident.append(after / 1e6)
            base.append(before / 1e6)
            each.append((after - before) / clients / 1e3)
            print_progress(f"{part}: round {number} of {rounds}: {after / 1e6:.0f} MB")


def _service(stack: contextlib.ExitStack, ping_interval: int) -> servers.RunningService:
    store = stack.enter_context(servers.redis_server())
    channels: dict[str, object] = {
        "token_hmac_secret_key": SECRET,
        "ping_interval": ping_interval,
        "pong_timeout": min(8, 0.9 * ping_interval),
        "allow_subscribe_for_client": True,
    }
    return stack.enter_context(servers.service(store.uri, options={"channels": channels}))


def _idle(websocket_peers: WebSocketPeers, seconds: float) -> None:
    """Answers pings.  Raises BenchmarkFailed unless each client had one."""
    end = time.monotonic() + seconds
    pinged = set()
    while time.monotonic() < end:
        pinged |= {peer.number for peer in websocket_peers.poll(0.1) if peer.answer_ping()}
    if len(pinged) != len(websocket_peers.peers):
        raise BenchmarkFailed(f"{len(pinged)} of {len(websocket_peers.peers)} clients were pinged")
