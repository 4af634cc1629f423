# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis doctor``: what is wrong with the stores and the configuration."""

from __future__ import annotations

import argparse
import asyncio
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from cliff.lister import Lister
from msgspec import structs
from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.cli import service_factory, stores
from zaqar_redis.cli.base import Table, TargetCommand
from zaqar_redis.cli.config import SECRET_URIS
from zaqar_redis.cli.insecure_options import insecure_options
from zaqar_redis.cli.stores import Installation, NamedStore
from zaqar_redis.cli.target import quiet_logging
from zaqar_redis.conf import environment
from zaqar_redis.figures import Alarm, Severity
from zaqar_redis.keyspace import embedded, uris
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.runner import Runner
from zaqar_redis.service.alarms import sort_alarms, store_alarms
from zaqar_redis.service.stores import StoreReport, ask_driver
from zaqar_redis.storage.load import load

#: Exit codes by the worst finding.
_CODES: dict[Severity, int] = {"info": 0, "warning": 3, "critical": 4}


class Doctor(TargetCommand, Lister):
    """Diagnose the stores and the configuration: list what is wrong, and what to do.

    Checks each Redis (version, persistence, memory and its policy, clock, latency, connections,
    open ports), problems and insecure settings of the configuration, and the service's last
    findings about queues and their subscriptions. Changes nothing. Exits with 3 if the worst
    finding is a warning, with 4 if it is critical, else with 0. Pass the configuration of the
    service; with --storage alone the command checks only the stores. Example:

        zaqar-redis doctor --config-file /etc/zaqar_redis/zaqar_redis.conf
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        quiet_logging(channels=True)  # the findings say what is unreachable
        conf = configuration.read([], parsed_args.config_file)
        # A store that is named without a configuration says nothing about a service.
        of_service = parsed_args.config_file or not self.target.is_explicit
        configured = _configuration(conf) if of_service else ()
        found = sort_alarms([*configured, *self._stores(conf)])
        if found:
            self.exit_code = _CODES[found[0].severity]
        else:
            self.print_notice("nothing is wrong", verbosity=1)
        return ("severity", "where", "what", "remedy"), [*map(structs.astuple, found)]

    def _stores(self, conf: cfg.ConfigOpts) -> Sequence[Alarm]:
        try:
            with embedded.running_if_embedded(self.target.uri) as uri, Runner() as runner:
                return runner.run(_ask_all, conf, uri)
        except (errors.BadConfiguration, cfg.Error) as why:
            where, what = str(self.target), errors.reason(why)
            return (Alarm("critical", where, what, "Mend the configuration."),)


async def _ask_all(conf: cfg.ConfigOpts, uri: str) -> Sequence[Alarm]:
    """Asks the stores side by side: however many are away, it takes as long as one of them."""
    common = structs.asdict(configuration.settings(conf, BatchSettings))

    async def ask(store: NamedStore) -> tuple[NamedStore, StoreReport | None]:
        if urlsplit(store.uri).scheme == "memory":
            return store, None
        driver = load(store.uri, {**common, **store.options})
        try:
            await driver.start()
            return store, await ask_driver(store.kind, store.name, driver)
        finally:
            await driver.close()

    configured = [*stores.named_stores(conf, uri, Installation())]

    async def ask_pools() -> tuple[Installation, Sequence[tuple[NamedStore, StoreReport | None]]]:
        installation = await stores.read_installation(conf, uri)
        pools = [*stores.named_stores(conf, uri, installation)][len(configured) :]
        return installation, await asyncio.gather(*map(ask, pools))

    (installation, of_pools), *reports = await asyncio.gather(ask_pools(), *map(ask, configured))
    found: list[Alarm] = []
    for store, report in (*reports, *of_pools):
        found += _transport(store.name, store.uri)
        largest = installation.largest.get(store.name, ()) if store.kind == "queues" else ()
        if report is not None:
            found += store_alarms(report, largest)
    return [*found, *installation.alarms]


def _transport(name: str, uri: str) -> Iterator[Alarm]:
    parts = urlsplit(uri)
    if parts.scheme == "memory":
        yield Alarm(
            "warning",
            f"store {name}",
            "It is the memory of one process.",
            "Use it for development only.",
        )
    elif parts.scheme == "redis" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        yield Alarm(
            "info",
            f"store {name}",
            f"It is reached without TLS: {uris.redact_password(uri)}.",
            "Use rediss:// unless the network is for them alone.",
        )


def _configuration(conf: cfg.ConfigOpts) -> Iterator[Alarm]:
    where = ", ".join(conf.config_file) or "configuration"
    for problem in configuration.problems(conf) + service_factory.problems(conf):
        yield Alarm("critical", where, problem, "`zaqar-redis config check` lists this, too.")
    try:
        for severity, what, remedy in insecure_options(conf):
            yield Alarm(severity, where, what, remedy)
    except cfg.Error:
        pass  # an invalid value: it is among the problems
    for path in conf.config_file:
        mode = os.stat(path).st_mode
        if mode & stat.S_IROTH and any(_secrets(conf)):
            yield Alarm(
                "warning", path, "Everybody on this machine can read its secrets.", "chmod o-r"
            )


def _secrets(conf: cfg.ConfigOpts) -> Iterator[Any]:
    """Yields the secrets that the files have, URIs with a password among them."""
    for group, options in configuration.groups(conf).items():
        of = None if group == environment.DEFAULT else group
        for option in options:
            if option.secret and configuration.origin(conf, of, option.dest):
                value = (conf[of] if of else conf)[option.dest]
                if option.dest not in SECRET_URIS or uris.redact_password(value) != value:
                    yield value
