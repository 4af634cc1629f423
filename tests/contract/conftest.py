# SPDX-License-Identifier: Apache-2.0
"""Every backend that implements the contract, as a fixture parameter."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.support import backends, servers
from tests.support.backends import NewStore
from tests.support.blocking import BlockingStore
from tests.support.stores import POOLED, ContractStore, opened
from zaqar_redis.keyspace import embedded


@contextlib.contextmanager
def _memory() -> Iterator[str]:
    yield f"memory://{uuid.uuid4()}"


@contextlib.contextmanager
def _redis() -> Iterator[str]:
    with servers.redis_server() as server:
        yield server.uri


@contextlib.contextmanager
def _tcp() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="zr-") as folder:
        process, port = _on_a_port(Path(folder))
        try:
            yield f"redis://127.0.0.1:{port}/3"
        finally:
            process.kill()
            process.wait()


def _on_a_port(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Starts a server on TCP; retried, as another process may take a free port first."""
    for _ in range(10):
        port = servers.free_port()
        process = subprocess.Popen(
            [
                servers.program(servers.REDIS),
                *("--bind", "127.0.0.1", "--port", str(port), "--save", ""),
                *("--dir", str(folder), "--logfile", str(folder / "redis.log")),
            ],
            start_new_session=True,
        )
        with redis.Redis(port=port) as client:
            settled = functools.partial(_settled, process, client)
            servers.wait_for(settled, "the server to answer or to give up")
        if process.poll() is None:
            return process, port
    raise RuntimeError("no free port")


def _settled(process: subprocess.Popen[bytes], client: redis.Redis) -> bool:
    if process.poll() is not None:
        return True
    try:
        return bool(client.info("server")["process_id"] == process.pid)
    except (redis.RedisError, OSError):
        return False


@contextlib.contextmanager
def _embedded() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="zr-") as folder,
        embedded.running(f"embedded://{folder}") as uri,
    ):
        yield uri


@contextlib.contextmanager
def _pooled() -> Iterator[str]:
    with _redis() as default, _redis() as other:
        yield f"{POOLED}{default}|{default}?db=1|{other}"


@contextlib.contextmanager
def _uri(start: NewStore) -> Iterator[str]:
    with start() as store:
        yield store.uri


BACKENDS: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "memory": _memory,
    **{name: functools.partial(_uri, start) for name, start in backends.BACKENDS.items()},
    "tcp": _tcp,
    "embedded": _embedded,
    "pooled": _pooled,
}


#: One Redis by other transports: only tests marked `transports` run on these.
_TRANSPORTS = ("tcp", "embedded")
#: What tools/test --fast runs on.
_FAST = ("memory", "redis")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "uri" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker("transports")
        names = [name for name in BACKENDS if marked or name not in _TRANSPORTS]
        params = [
            pytest.param(name, marks=[] if name in _FAST else [pytest.mark.slow]) for name in names
        ]
        metafunc.parametrize("uri", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def uri(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URI of a store that only this process uses; of each backend in turn."""
    with BACKENDS[request.param]() as found:
        yield found


@pytest.fixture
def store(uri: str, project: str) -> Iterator[ContractStore]:
    with opened(uri, project) as store:
        yield store


#: How long subscriptions wait for Redis.
SUBSCRIBE_TIMEOUT = "zaqar_redis.storage.redis.feed._SUBSCRIBE_TIMEOUT_SECONDS"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets subscriptions wait for a busy Redis: later than after a second, they miss messages."""
    monkeypatch.setattr(SUBSCRIBE_TIMEOUT, 60.0)


@pytest.fixture(scope="session")
def own_redis() -> Iterator[str]:
    """One real Redis, for what need not be tested on every backend."""
    with _redis() as found:
        yield found


@pytest.fixture
def real(own_redis: str, project: str) -> Iterator[ContractStore]:
    with opened(own_redis, project) as store:
        yield store


@pytest.fixture(scope="session", params=["redis", pytest.param("valkey", marks=pytest.mark.slow)])
def server_of_each_kind(request: pytest.FixtureRequest) -> Iterator[str]:
    with BACKENDS[request.param]() as found:
        yield found


@pytest.fixture
def blocking(server_of_each_kind: str, project: str) -> Iterator[BlockingStore]:
    """The store as Spark uses it: blocking, over a real server."""
    store = BlockingStore(server_of_each_kind, project)
    yield store
    store.close()
