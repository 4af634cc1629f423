# SPDX-License-Identifier: Apache-2.0
"""What connections cost a worker that say nothing.

Each has a token, a user of its own and one subscription, and answers pings.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from tests import servers
from tests.benchmarks import house
from tests.benchmarks.crowd import Crowd
from tests.benchmarks.found import Found
from tests.benchmarks.returning import SECRET, joining
from tests.benchmarks.rounds import cpu_seconds, tell
from zaqar_redis.bench.service import Failed

#: Channels that they share.
_CHANNELS = 100
#: Clients that connect at a time.
_AT_ONCE = 200


def measure(found: Found, rounds: int, seconds: int, clients: int) -> None:
    """*seconds*: between pings; connections are looked at for two of these."""
    part = "idle"
    resident = found.figure(part, f"worker with {clients} connections", "MB", ("≤", 300))
    base = found.figure(part, "worker without", "MB")
    each = found.figure(part, "each connection", "KB")
    connects = found.figure(part, "connect and subscribe", "clients/s")
    cpu = found.figure(part, f"CPU with a ping each every {seconds} s", "% of a core")
    for number in range(1, rounds + 1):
        with contextlib.ExitStack() as stack:
            running = _service(stack, seconds)
            [worker] = running.workers()
            before = memory(worker)
            crowd = Crowd(running.port, "/connection/websocket")
            stack.callback(crowd.close)
            dialogues = [joining(n, f"channel-{n % _CHANNELS}") for n in range(clients)]
            start = time.perf_counter()
            crowd.grow(dialogues, _AT_ONCE)
            connects.append(clients / (time.perf_counter() - start))
            used, start = cpu_seconds(worker), time.perf_counter()
            _idle(crowd, 2 * seconds)
            cpu.append((cpu_seconds(worker) - used) / (time.perf_counter() - start) * 100)
            after = memory(worker)
            resident.append(after / 1e6)
            base.append(before / 1e6)
            each.append((after - before) / clients / 1e3)
            tell(f"{part}: round {number} of {rounds}: {after / 1e6:.0f} MB")


def _service(stack: contextlib.ExitStack, ping_interval: int) -> servers.Service:
    store = house.redis_server(stack)
    channels: dict[str, object] = {
        "token_hmac_secret_key": SECRET,
        "ping_interval": ping_interval,
        "pong_timeout": min(8, 0.9 * ping_interval),
        "allow_subscribe_for_client": True,
    }
    return stack.enter_context(servers.service(store.uri, options={"channels": channels}))


def _idle(crowd: Crowd, seconds: float) -> None:
    """Answer pings.  Raises Failed unless each client had one."""
    end = time.monotonic() + seconds
    pinged = set()
    while time.monotonic() < end:
        pinged |= {peer.number for peer in crowd.poll(0.1) if peer.answer_ping()}
    if len(pinged) != len(crowd.peers):
        raise Failed(f"{len(pinged)} of {len(crowd.peers)} clients were pinged")


def memory(process: int) -> int:
    """Resident bytes of a process, what it shares with others as well."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise Failed(f"process {process} has no memory")
