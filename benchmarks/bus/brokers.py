# SPDX-License-Identifier: Apache-2.0
"""Brokers of the measured buses, each on free ports of loopback for the time of a run."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import msgspec

from tests.support import servers
from tests.support.brokers import zeromq_broker
from tests.support.nats import nats_server
from zaqar_redis.benchmarks.logs import check_log
from zaqar_redis.benchmarks.service import BenchmarkFailed, local_store
from zaqar_redis.keyspace import blocking
from zaqar_redis.keyspace.settings import BatchSettings

#: Bytes that Redis keeps for a subscriber that reads slowly, before it closes the connection:
#: publishers that do not wait for subscribers are ahead of them by some million messages.
_PUBSUB_LIMIT = "1gb"


class RunningBroker(msgspec.Struct, frozen=True):
    #: for the clients of its contenders
    address: str
    process: int


@contextlib.contextmanager
def redis() -> Iterator[RunningBroker]:
    with servers.redis_server() as server:
        with server.client() as client:
            client.config_set("client-output-buffer-limit", f"pubsub {_PUBSUB_LIMIT} 0 0")
        yield RunningBroker(f"redis://127.0.0.1:{server.open_port()}", server.pid)


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
    with nats_server() as server:
        yield RunningBroker(server.uri, server.pid)


@contextlib.contextmanager
def forwarder() -> Iterator[RunningBroker]:
    pulls, publishes = (f"tcp://127.0.0.1:{servers.free_port()}" for _ in range(2))
    # Its clients wait for it: a subscriber is ready when it has heard itself.
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bus.forwarder", pulls, publishes],
        start_new_session=True,
    ) as process:
        try:
            yield RunningBroker(f"{pulls} {publishes}", process.pid)
        finally:
            process.kill()


@contextlib.contextmanager
def bus_broker() -> Iterator[RunningBroker]:
    with zeromq_broker() as broker:
        yield RunningBroker(broker.uri, broker.pid)
        check_log("zaqar-redis bus-broker", broker.log)


#: by kind
BROKERS: dict[str, Callable[[], contextlib.AbstractContextManager[RunningBroker]]] = {
    "redis": redis,
    "forwarder": forwarder,
    "bus-broker": bus_broker,
    "nats": nats,
}
