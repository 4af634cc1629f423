# SPDX-License-Identifier: Apache-2.0
"""Brokers of the measured buses, each on free ports of loopback for the time of a run."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator

import msgspec

from zaqar_redis import errors
from zaqar_redis.benchmarks import servers
from zaqar_redis.benchmarks.service import BenchmarkFailed, local_store
from zaqar_redis.keyspace import blocking, embedded
from zaqar_redis.keyspace.settings import BatchSettings

#: Bytes that Redis keeps for a subscriber that reads slowly, before it closes the connection:
#: publishers that do not wait for subscribers are ahead of them by some million messages.
_PUBSUB_LIMIT = "1gb"


class RunningBroker(msgspec.Struct, frozen=True):
    #: for the clients of its contenders
    address: str
    process: int

    def cpu_seconds(self) -> float:
        """Returns the CPU time that it has used, by the clock of clock_getcpuclockid(3)."""
        return time.clock_gettime(~self.process << 3 | 2)


class BrokerKind(msgspec.Struct, frozen=True):
    run: Callable[[], contextlib.AbstractContextManager[RunningBroker]]
    #: returns what is not installed that it needs
    missing: Callable[[], str | None] = lambda: None


@contextlib.contextmanager
def redis() -> Iterator[RunningBroker]:
    def command(port: int) -> list[str]:
        command = [embedded.binary(), "--port", str(port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no"]
        return [*command, "--client-output-buffer-limit", f"pubsub {_PUBSUB_LIMIT} 0 0"]

    with servers.running("Redis", command, {}) as (process, port):
        yield RunningBroker(f"redis://127.0.0.1:{port}", process)


@contextlib.contextmanager
def running_redis(uri: str) -> Iterator[RunningBroker]:
    """Uses a Redis that runs already.

    Raises BadConfiguration unless it is on this machine, and StoreUnavailable.
    """
    client = blocking.client(local_store(uri), BatchSettings())
    try:
        server: bytes = client.command("INFO", "server")
    finally:
        client.close()
    process = re.search(rb"process_id:(\d+)", server)
    if process is None:
        raise BenchmarkFailed(f"{client.name} does not tell its process: its CPU is unknown")
    yield RunningBroker(uri, int(process[1]))


@contextlib.contextmanager
def nats() -> Iterator[RunningBroker]:
    def command(port: int) -> list[str]:
        return ["nats-server", "--addr", "127.0.0.1", "--port", str(port)]

    with servers.running("nats-server", command, {}) as (process, port):
        yield RunningBroker(f"nats://127.0.0.1:{port}", process)


@contextlib.contextmanager
def forwarder() -> Iterator[RunningBroker]:
    publishes = f"tcp://127.0.0.1:{servers.free_port()}"

    def command(port: int) -> list[str]:
        module = "zaqar_redis.benchmarks.bus.forwarder"
        return [sys.executable, "-m", module, f"tcp://127.0.0.1:{port}", publishes]

    with servers.running("the forwarder", command, {}) as (process, port):
        yield RunningBroker(f"tcp://127.0.0.1:{port} {publishes}", process)


@contextlib.contextmanager
def bus_broker() -> Iterator[RunningBroker]:
    def command(port: int) -> list[str]:
        program = [sys.executable, "-m", "zaqar_redis.cli.main", "bus-broker"]
        return [*program, "--bind", "127.0.0.1", "--port", str(port)]

    with servers.running("zaqar-redis bus-broker", command, {}, ports=2) as (process, port):
        yield RunningBroker(f"zeromq://127.0.0.1:{port}", process)


def _without_redis() -> str | None:
    try:
        embedded.binary()
    except errors.BadConfiguration as error:
        return str(error)
    return None


def _without_nats() -> str | None:
    if shutil.which("nats-server") is None:
        return "nats-server on PATH (Debian: apt-get install nats-server)"
    return None


BROKERS = {
    "redis": BrokerKind(redis, _without_redis),
    "forwarder": BrokerKind(forwarder),
    "bus-broker": BrokerKind(bus_broker),
    "nats": BrokerKind(nats, _without_nats),
}
