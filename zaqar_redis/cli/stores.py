# SPDX-License-Identifier: Apache-2.0
"""Stores that commands open themselves, without a service.

What these need takes most of a second to import, so the other modules of commands import this
one where they use it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import pwd
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
import msgspec
from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.api.app import App
from zaqar_redis.api.composition import ServiceParts, compose
from zaqar_redis.auth.access import open_access
from zaqar_redis.auth.access_keys import AccessKeys
from zaqar_redis.cli import service_factory
from zaqar_redis.cli.target import CommandTarget, Needs, quiet_logging
from zaqar_redis.conf.groups import ChannelsSettings, StorageSettings
from zaqar_redis.figures import Alarm, LargeQueue
from zaqar_redis.formats import WorkerRelease
from zaqar_redis.keyspace import embedded, uris
from zaqar_redis.pool_records import Pool
from zaqar_redis.runner import Runner
from zaqar_redis.service.queue_alarms import of_projects
from zaqar_redis.service.stores import StoreKind
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import DEFAULT_POOL, Control
from zaqar_redis.storage.formats import check_format
from zaqar_redis.storage.pools import PooledDriver


def operator() -> str:
    """Returns the user of the operating system who runs the command."""
    # Not getpass: it believes the environment.
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may have none with this number
        return str(os.getuid())


@contextlib.contextmanager
def started(store: Driver | Control, runner: Runner) -> Iterator[None]:
    """Starts a store, and closes it in the end."""
    try:
        runner.run(store.start)
        yield
    finally:
        runner.run(store.close)


@contextlib.contextmanager
def open_store(
    parsed: argparse.Namespace, command_target: CommandTarget
) -> Iterator[tuple[Driver, Runner]]:
    """Yields the store's driver, started, and a runner of its verbs.  Raises BadConfiguration."""
    quiet_logging()
    conf = configuration.load([], parsed.config_file)
    with Runner() as runner, embedded.running_if_embedded(command_target.uri) as uri:
        driver = service_factory.driver(conf, uri)()
        with started(driver, runner):
            runner.run(_check_format, driver)
            yield driver, runner


async def _check_format(driver: Driver) -> None:
    """Raises FormatTooNew; a store that is away is left to what the command does."""
    store = driver.router.stores.default.driver if isinstance(driver, PooledDriver) else driver
    with contextlib.suppress(errors.Unavailable):
        if store.ownership is not None:
            await check_format(store.ownership.format, DEFAULT_POOL)


@contextlib.contextmanager
def open_access_keys(
    parsed: argparse.Namespace, command_target: CommandTarget
) -> Iterator[tuple[AccessKeys, Runner]]:
    """Yields the access keys of the store, and a runner.  Raises BadConfiguration."""
    quiet_logging()
    conf = configuration.load([], parsed.config_file)
    with Runner() as runner, embedded.running_if_embedded(command_target.uri) as uri:
        store = service_factory.access_key_store(conf, uri)
        with started(store, runner):
            yield store.access_keys, runner


class NamedStore(NamedTuple):
    """A store of an installation."""

    kind: StoreKind
    name: str
    uri: str
    #: of a pool: settings of its driver that differ from those of all
    options: Mapping[str, Any]


class Installation(NamedTuple):
    """What the store of a service says of the installation."""

    pools: Sequence[Pool] = ()
    #: by name of the store
    largest: Mapping[str, Sequence[LargeQueue]] = {}
    #: what is wrong with queues and their subscriptions
    alarms: Sequence[Alarm] = ()
    #: None: they are not known
    workers: Sequence[WorkerRelease] | None = None


async def read_installation(conf: cfg.ConfigOpts, uri: str) -> Installation:
    """Returns nothing when the store at *uri* is away.  Raises BadConfiguration."""
    driver = service_factory.driver(conf, uri)()
    if not isinstance(driver, PooledDriver):
        return Installation()
    try:
        await driver.start()
        pools, largest, alarms, workers = await asyncio.gather(
            driver.router.stores.pools(),
            driver.control.histories.largest_queues(),
            driver.control.histories.all_alarms(),
            driver.control.quotas.workers(),
        )
    except errors.Unavailable:
        return Installation()
    finally:
        await driver.close()
    return Installation([*pools.values()], largest, [*of_projects(alarms)], workers)


def named_stores(
    conf: cfg.ConfigOpts, uri: str, installation: Installation
) -> Iterator[NamedStore]:
    """Yields the stores of the installation whose store is at *uri*, each Redis once; its pools
    last."""
    named: list[tuple[StoreKind, str, str, Mapping[str, Any]]] = [("queues", DEFAULT_POOL, uri, {})]
    if control := configuration.settings(conf, StorageSettings).control_uri:
        named.append(("control", "control", control, {}))
    for number, each in enumerate(configuration.settings(conf, ChannelsSettings).uris, 1):
        named.append(("channels", f"channels {number}", each, {}))
    named += [("queues", pool.name, pool.uri, pool.options) for pool in installation.pools]
    seen = set()
    for kind, name, each, options in named:
        if (spelling := uris.canonical(each)) not in seen:
            seen.add(spelling)
            yield NamedStore(kind, name, uris.to_redis_uri(each), options)


class _AppTransport(httpx.BaseTransport):
    """Passes requests to an application in this process."""

    def __init__(self, app: App, runner: Runner) -> None:
        self._transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]  # an ASGI app
        self._runner = runner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._runner.run(self._handle, request)

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        answer = await self._transport.handle_async_request(request)
        return httpx.Response(
            answer.status_code, headers=answer.headers, content=await answer.aread()
        )


@contextlib.contextmanager
def in_process(
    parsed: argparse.Namespace, command_target: CommandTarget, needs: Needs
) -> Iterator[tuple[httpx.BaseTransport, Callable[[float], object]]]:
    """Starts the service's application in this process.

    Yields a transport to it, and a function that sleeps while its background tasks go on.
    """
    conf = configuration.load([], parsed.config_file)
    if needs is Needs.NAMESPACES and not (conf.config_file or conf.config_dir):
        # With the default options it would e.g. publish without adding to the history.
        raise errors.BadConfiguration(
            f"{command_target.origin} needs the service's configuration: give --config-file, or "
            "ask the service by --url"
        )
    with Runner() as runner, embedded.running_if_embedded(command_target.uri) as uri:
        settings = msgspec.structs.replace(service_factory.settings(conf), admin_mode=True)
        channels = needs is not Needs.QUEUES
        create_channels = (
            service_factory.channels(conf, uri, for_command=True) if channels else None
        )
        driver = service_factory.driver(conf, uri)()
        everybody = open_access(is_admin=True, user=operator())
        audit = service_factory.command_audit(conf)
        parts = ServiceParts(driver, everybody, create_channels, audit=audit, for_command=True)
        app = App(compose(settings, parts))
        try:
            runner.run(app.process_startup, None, None)
            runner.run(_check_format, driver)
            yield _AppTransport(app, runner), lambda seconds: runner.run(asyncio.sleep, seconds)
        finally:
            runner.run(app.process_shutdown, None, None)


@dataclass
class ProjectCount:
    """How many queues each project has."""

    queues: Counter[str] = field(default_factory=Counter)
    #: every store was asked
    is_complete: bool = True


async def count_queues(driver: Driver, on_progress: Callable[[int], object]) -> ProjectCount:
    """Counts the queues of each project in all stores of a driver.  Raises StoreUnavailable."""
    found = ProjectCount()
    stores = await driver.stores() if isinstance(driver, PooledDriver) else {"": driver}
    for store in stores.values():
        if store is None or store.ownership is None:
            found.is_complete = False
            continue
        async for project, names in store.ownership.content():
            found.queues[project] += len(names)
            on_progress(len(names))
    return found
