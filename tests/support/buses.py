# SPDX-License-Identifier: Apache-2.0
"""The buses that every test of the contract runs on, each with brokers of its own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from tests.support import servers
from tests.support.brokers import zeromq_broker
from tests.support.nats import nats_server
from tests.support.redis_cluster import redis_cluster
from zaqar_redis.realtime.bus import Bus, BusSettings
from zaqar_redis.realtime.buses.zeromq_keys import new_keys
from zaqar_redis.realtime.load import load_bus

#: Settings of a bus that needs some, by its first URI.
SETTINGS: dict[str, BusSettings] = {}


def open_bus(uris: Sequence[str]) -> Bus:
    """Returns the bus of URIs that one of `BUSES` has given."""
    return load_bus(uris, SETTINGS.get(uris[0], BusSettings()))


@contextlib.contextmanager
def memory() -> Iterator[list[str]]:
    yield ["memory://test"]


@contextlib.contextmanager
def redis(*kinds: str) -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(servers.redis_server(kind)).uri for kind in kinds]


@contextlib.contextmanager
def cluster() -> Iterator[list[str]]:
    with redis_cluster() as running:
        yield [running.uri]


@contextlib.contextmanager
def nats(count: int) -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(nats_server()).uri for _ in range(count)]


@contextlib.contextmanager
def zeromq(count: int) -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(zeromq_broker()).uri for _ in range(count)]


@contextlib.contextmanager
def zeromq_curve() -> Iterator[list[str]]:
    public, secret = new_keys()
    with tempfile.TemporaryDirectory(prefix="zr-keys-") as folder:
        file = Path(folder) / "secret.key"
        file.write_text(secret)
        with zeromq_broker("--curve-secret-key-file", str(file)) as broker:
            SETTINGS[broker.uri] = BusSettings(curve_server_key=public)
            yield [broker.uri]


#: By name: a context in which the URIs of a bus can be used.
BUSES: dict[str, Callable[[], contextlib.AbstractContextManager[list[str]]]] = {
    "memory": memory,
    "redis": lambda: redis(servers.REDIS),
    "valkey": lambda: redis(servers.VALKEY),
    "sharded": lambda: redis(servers.REDIS, servers.VALKEY),
    "cluster": cluster,
    "zeromq": lambda: zeromq(1),
    "zeromq-sharded": lambda: zeromq(2),
    "zeromq-curve": zeromq_curve,
    "nats": lambda: nats(1),
    "nats-sharded": lambda: nats(2),
}


class BusBroker(Protocol):
    """A process that a bus needs."""

    @property
    def uri(self) -> str: ...

    def start(self) -> None:
        """Starts it again, where it was, after it was killed."""

    def signal(self, number: int) -> None:
        """Sends a signal; waits for the end of a process that is killed."""


#: By name: a context with the broker of a bus.
BROKERS: dict[str, Callable[[], contextlib.AbstractContextManager[BusBroker]]] = {
    "redis": servers.redis_server,
    "nats": nats_server,
    "zeromq": zeromq_broker,
}
