# SPDX-License-Identifier: Apache-2.0
"""Fixtures shared by several folders of tests."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import signal
import uuid
from collections.abc import Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.utils
from httpx._transports import default as httpx_transports
from hypothesis import settings

from tests.support import backends, fixtures, scheduling, servers, spark_classes, tiers
from tests.support.collector import Collector
from tests.support.completeness import Completeness
from tests.support.stores import PATIENT
from zaqar_redis import formats
from zaqar_redis.keyspace import blocking, outages
from zaqar_redis.keyspace.control_keys import CONTROL

# No deadline: on a shared machine the duration of one example means nothing. CI runs the
# same examples each time, so that a failure is due to the change that is tested.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


_ROOT = Path(__file__).parents[1]
#: The store of the services that tests share, unless --store names another one.
_STORE = "redis"
#: characters of a value in the name of a test
_MAX_ID = 100

# Each client reads all certificates of the system for 20 ms, also one that needs none.
_NAME = "create_ssl_context"
setattr(httpx_transports, _NAME, functools.cache(getattr(httpx_transports, _NAME)))
# Each connection of redis-py parses the metadata of its package, for its own version.
redis.utils.get_lib_version = functools.cache(redis.utils.get_lib_version)

# A machine may stand still for nearly as long as a request may take by default, five seconds.
for _NAME in ("connect", "read", "write", "pool"):
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, _NAME, 60.0)

# For every Spark of the tests: it listens on loopback only, and starts fast.
os.environ["SPARK_HOME"] = str(spark_classes.spark_home())
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["SPARK_SUBMIT_OPTS"] = spark_classes.driver_java_options()


def pytest_configure(config: pytest.Config) -> None:
    # A worker of xdist is handed its tests by the process that has this plugin.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Completeness())


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    # Some values are as long as a request may be; a name is to be read.
    if isinstance(val, (str, bytes)) and len(val) > _MAX_ID:
        return f"{argname} of {len(val)}"
    return None


# The marks are there before pytest looks for those that -m names.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("store") != _STORE:
        # Of the others each result is known: they ask for a store of their own, or for none.
        same = [item for item in items if "new_store" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=same)
        left_out = set(same)
        items[:] = [item for item in items if item not in left_out]
    # Each of the processes has all items.
    paths = {path: path.relative_to(_ROOT).as_posix() for path in {item.path for item in items}}
    places = {path: scheduling.place(name) for path, name in paths.items()}
    items.sort(key=lambda item: places[item.path])
    for item in items:
        if paths[item.path].startswith(tiers.NIGHTLY):
            item.add_marker(pytest.mark.nightly)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine: in the event loop of its fixtures, or in one of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = pyfuncitem.funcargs
    runner = given.get("runner")
    run = runner.run if isinstance(runner, asyncio.Runner) else asyncio.run
    test = pyfuncitem.obj(**{name: given[name] for name in pyfuncitem._fixtureinfo.argnames})
    run(_in_time(test))
    return True


async def _in_time(test: Coroutine[Any, Any, None]) -> None:
    """Ends before pytest's time-out, which a callback of the event loop could swallow."""
    async with asyncio.timeout(110):
        await test


def pytest_xdist_make_scheduler(
    config: pytest.Config, log: Any
) -> scheduling.SharedServersScheduling | None:
    by_file = config.getoption("dist") == "loadfile"
    return scheduling.SharedServersScheduling(config, log) if by_file else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looks for no garbage while tests are collected, and never again among these."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# A shell's "&" makes the tests ignore SIGINT, and their child processes would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        choices=sorted(backends.BACKENDS),
        default=_STORE,
        help="the store of the services that tests share; another than the default leaves out what"
        " does not use it (default: %(default)s)",
    )


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of fixtures that need one, and of their test if it is a coroutine."""
    with asyncio.Runner() as runner:
        yield runner


#: A Redis that a test may stop, flush and kill.
server = fixtures.redis("function")


@pytest.fixture(autouse=True)
def no_outages() -> None:
    """Lets the log of each test be its own: what it tells of outages depends on those before."""
    outages.forget()


@pytest.fixture(scope="session")
def new_store(pytestconfig: pytest.Config) -> backends.NewStore:
    """Starts a store of the kind that the option --store names."""
    return backends.BACKENDS[pytestconfig.getoption("store")]


@pytest.fixture(scope="session")
def redis_server(new_store: backends.NewStore) -> Iterator[backends.Backend]:
    """A store that all tests of one process share: each test uses projects of its own."""
    with new_store() as backend:
        _mark_new(backend.uri)
        yield backend


def _mark_new(uri: str) -> None:
    """Marks a store as new installations are, before a test uses it without a service."""
    client = blocking.client(uri, PATIENT)
    mark = {"version": formats.CURRENT.version, "needs": formats.CURRENT.needs}
    for name, value in mark.items():
        client.command("HSET", CONTROL.format, name, value)
    client.close()


@pytest.fixture(scope="session")
def service(redis_server: backends.Backend) -> Iterator[servers.RunningService]:
    """A service with default options, shared like its Redis."""
    with servers.service(redis_server.uri) as running:
        yield running


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """A collector of OpenTelemetry."""
    started = Collector()
    yield started
    started.close()


@pytest.fixture(scope="module")
def collected() -> Iterator[None]:
    """Collects garbage, so that resource warnings appear in the module that caused them."""
    yield
    for _ in range(3):  # a connection is collected before its socket
        gc.collect()


@pytest.fixture
def project() -> str:
    """The name of a project that no other test uses."""
    return f"project-{uuid.uuid4()}"
