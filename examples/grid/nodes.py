# SPDX-License-Identifier: Apache-2.0
"""The servers of the world: a store, and two nodes of the service that share it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from examples.grid.world import NAMESPACE
from zaqar_redis.keyspace import blocking, embedded
from zaqar_redis.keyspace.script import RedisCommand
from zaqar_redis.keyspace.settings import BatchSettings

#: Seconds that a node may take to start on a busy machine, and to stop before it is killed.
_START_SECONDS, _STOP_SECONDS = 60.0, 15.0


class NodesFailed(Exception):
    """A node did not start."""


class Keys(msgspec.Struct, frozen=True):
    """*token*: signs the tokens of players.  *api*: opens the server API."""

    token: str
    api: str


def new_keys() -> Keys:
    return Keys(secrets.token_hex(32), secrets.token_hex(16))


@contextlib.contextmanager
def store(uri: str | None) -> Iterator[str]:
    """Yields the URI of the given store, or else of a private one that ends with the block.

    Raises BadConfiguration, and Unavailable when the given one does not answer.
    """
    if uri is not None:
        with contextlib.closing(blocking.client(uri, BatchSettings())) as client:
            client.call(RedisCommand("PING"))
        yield uri
        return
    with (
        tempfile.TemporaryDirectory(prefix="grid-") as folder,
        embedded.running(f"embedded://{folder}") as own,
    ):
        yield own


@contextlib.contextmanager
def nodes(uri: str, keys: Keys, ports: Sequence[int]) -> Iterator[list[int]]:
    """Runs a node on each port (0: any free one); yields the ports once all of them listen.

    Raises NodesFailed, with the end of its log, for one that does not start.
    """
    ports = [port or free_port() for port in ports]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="grid-")))
        config = folder / "zaqar_redis.conf"
        config.write_text(_config(keys))
        config.chmod(0o600)  # it has the keys
        logs = [folder / f"{port}.log" for port in ports]
        started = [
            stack.enter_context(_process(_command(uri, config, port), log))
            for port, log in zip(ports, logs, strict=True)
        ]
        for process, port, log in zip(started, ports, logs, strict=True):
            _wait_until_it_listens(process, port, log)
        is_ending = threading.Event()
        stack.callback(is_ending.set)
        for number, process in enumerate(started, 1):
            watch = threading.Thread(
                target=_report_end, args=(number, process, is_ending), daemon=True
            )
            watch.start()
        yield ports


@contextlib.contextmanager
def child(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    """Runs a program that writes to this one's output, and ends it by SIGTERM."""
    process = subprocess.Popen(command, env=os.environ | environment, start_new_session=True)
    try:
        yield
    finally:
        _end(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _config(keys: Keys) -> str:
    groups: dict[str, dict[str, object]] = {
        "channels": {
            "token_hmac_secret_key": keys.token,
            "api_key": keys.api,
            # The page comes from a port of its own.
            "allowed_origins": "http://127.0.0.1:*,http://localhost:*",
            "namespaces": NAMESPACE,
        },
        f"channels:{NAMESPACE}": {
            "allow_subscribe_for_client": True,
            # So a player speaks only where he listens.
            "allow_publish_for_subscriber": True,
        },
    }
    lines: list[str] = []
    for group, values in groups.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def _command(uri: str, config: Path, port: int) -> list[str]:
    serve = [sys.executable, "-m", "zaqar_redis.cli.main", "serve", "--workers", "1"]
    return [
        *serve,
        *("--bind", f"127.0.0.1:{port}"),
        *("--storage", uri),
        *("--config-file", str(config)),
    ]


@contextlib.contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        # A session of its own: Ctrl-C is for this process, which ends the node.
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        _end(process)


def _report_end(number: int, process: subprocess.Popen[bytes], is_ending: threading.Event) -> None:
    """Says that a node has ended by itself, or was killed."""
    status = process.wait()
    if not is_ending.is_set():
        print(
            f"Node {number} has ended with status {status}; its players wait for it. "
            "Ctrl-C, and start again.",
            file=sys.stderr,
            flush=True,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise NodesFailed(f"the node on port {port} did not start:\n{log.read_text()[-1000:]}")
