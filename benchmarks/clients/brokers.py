# SPDX-License-Identifier: Apache-2.0
"""Servers of the compared clients, each on free ports of loopback for the time of a run.

All write what they confirm to a file, and sync it later: Redis and beanstalkd each second, NATS at
its own pace, RabbitMQ before it confirms.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tests.support import servers
from tests.support.nats import nats_server


class RunningServer(msgspec.Struct, frozen=True):
    address: str
    #: processes that were started: what they start counts, too
    processes: tuple[int, ...]


@contextlib.contextmanager
def zaqar() -> Iterator[RunningServer]:
    with (
        servers.redis_server(fsync="everysec") as store,
        servers.service(store.uri) as running,
    ):
        yield RunningServer(running.url, (running.process.pid, store.pid))


@contextlib.contextmanager
def redis() -> Iterator[RunningServer]:
    with servers.redis_server(fsync="everysec") as server:
        yield RunningServer(f"redis://127.0.0.1:{server.open_port()}", (server.pid,))


@contextlib.contextmanager
def nats() -> Iterator[RunningServer]:
    with (
        tempfile.TemporaryDirectory(prefix="zr-jetstream-") as folder,
        nats_server(f'jetstream {{ store_dir: "{folder}" }}') as server,
    ):
        yield RunningServer(server.uri, (server.pid,))


@contextlib.contextmanager
def beanstalkd() -> Iterator[RunningServer]:
    port = servers.free_port()  # beanstalkd does not tell which one it took
    with tempfile.TemporaryDirectory(prefix="zr-beanstalkd-") as folder:
        command = ["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", folder, "-f", "1000"]
        with _started(command, Path(folder), port) as process:
            yield RunningServer(f"127.0.0.1:{port}", (process,))


@contextlib.contextmanager
def rabbitmq() -> Iterator[RunningServer]:
    """Its script of Debian's runs as another user, the one of RabbitMQ itself does not."""
    # It does not tell which ones it took.
    port, between_nodes, names = (servers.free_port() for _ in range(3))
    with tempfile.TemporaryDirectory(prefix="zr-rabbitmq-") as folder:
        environment = {
            "HOME": folder,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_DIST_PORT": str(between_nodes),
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_LOG_BASE": folder,
            "RABBITMQ_MNESIA_BASE": folder,
            "RABBITMQ_NODENAME": f"benchmark{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
        }
        # Else the node starts it, and leaves it behind.
        with (
            _started(["epmd"], Path(folder), names, environment) as register,
            _started([RABBITMQ], Path(folder), port, environment) as node,
        ):
            yield RunningServer(f"amqp://guest:guest@127.0.0.1:{port}/", (node, register))


RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"


@contextlib.contextmanager
def _started(
    command: list[str], folder: Path, port: int, environment: dict[str, str] | None = None
) -> Iterator[int]:
    """Runs a program until it is asked to end; yields its pid when its port is open."""
    log = folder / f"{Path(command[0]).name}.log"
    process = servers.start_logged(command, log, environment)

    def listens() -> bool:
        with socket.socket() as probe:
            return process.poll() is not None or not probe.connect_ex(("127.0.0.1", port))

    with servers.stopping(process):
        servers.wait_for(listens, f"{command[0]} to start")
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]} did not start:\n{log.read_text()}")
        yield process.pid


#: By kind: the program that it needs beside Redis, and what starts it.
BROKERS: dict[str, tuple[str, Callable[[], contextlib.AbstractContextManager[RunningServer]]]] = {
    "zaqar": (servers.REDIS, zaqar),
    "redis": (servers.REDIS, redis),
    "nats": ("nats-server", nats),
    "beanstalkd": ("beanstalkd", beanstalkd),
    "rabbitmq": (RABBITMQ, rabbitmq),
}
