# SPDX-License-Identifier: Apache-2.0
"""Every backend that implements the contract, as a fixture parameter."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.support import backends, servers
from tests.support.backends import NewStore
from tests.support.blocking import BlockingStore
from tests.support.stores import POOLED, ContractStore, PooledContractStore, opened, opened_pools
from tests.support.tiers import in_gate
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
    with servers.redis_server() as server:
        yield f"redis://127.0.0.1:{server.open_port()}/3"


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
#: What tools/test --fast runs on, and the gate, but for tests marked `transports`.
_FAST = ("memory", "redis")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "uri" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker("transports")
        names = [name for name in BACKENDS if marked or name not in _TRANSPORTS]
        elsewhere = pytest.mark.slow if marked else pytest.mark.nightly
        params = [pytest.param(name, marks=[] if name in _FAST else [elsewhere]) for name in names]
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
        if uri.startswith("memory:"):  # it is slow in sweeping what other tests have left
            store.reset()


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


@pytest.fixture(scope="module", params=in_gate(["memory", "redis", "valkey"], "memory", "redis"))
def control_uri(request: pytest.FixtureRequest) -> Iterator[str]:
    with BACKENDS[request.param]() as found:
        yield found


@pytest.fixture(scope="module")
def pools_uri() -> Iterator[str]:
    with BACKENDS["pooled"]() as found:
        yield found


@pytest.fixture
def pools(pools_uri: str, project: str) -> Iterator[PooledContractStore]:
    with opened_pools(pools_uri, project) as store:
        yield store


@pytest.fixture(scope="session", params=in_gate(["redis", "valkey"]))
def server_of_each_kind(request: pytest.FixtureRequest) -> Iterator[str]:
    with BACKENDS[request.param]() as found:
        yield found


@pytest.fixture
def blocking(server_of_each_kind: str, project: str) -> Iterator[BlockingStore]:
    """The store as Spark uses it: blocking, over a real server."""
    store = BlockingStore(server_of_each_kind, project)
    yield store
    store.close()
