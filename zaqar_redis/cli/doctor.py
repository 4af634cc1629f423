# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis doctor``: what is wrong with the stores and the configuration."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from cliff.lister import Lister
from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.api.channels.server import ServerApiSettings
from zaqar_redis.cli import service_factory, stores
from zaqar_redis.cli.api import quiet_logging
from zaqar_redis.cli.base import Row, Table, TargetCommand
from zaqar_redis.conf import environment
from zaqar_redis.conf.groups import (
    AuthSettings,
    ChannelsSettings,
    ListenSettings,
    StorageSettings,
)
from zaqar_redis.keyspace import server_facts, uris
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.service.diagnosis import Diagnosis, Severity, diagnose, error, note, warning

#: Exit codes by the worst finding.
_CODES = {Severity.NOTE: 0, Severity.WARNING: 3, Severity.ERROR: 4}

#: A finding, and the store or file that it is about.
Finding = tuple[str, Diagnosis]


class Doctor(TargetCommand, Lister):
    """Diagnose the stores and the configuration: list what is wrong, and what to do.

    Of each Redis: version, persistence, memory and its policy, clock, latency, connections, open
    ports; of the configuration its problems and insecure settings. Nothing is changed. Exits with
    0 when there are only notes, 3 when the worst finding is a warning, 4 when it is an error.
    Give the configuration of the service. Example:

        zaqar-redis doctor --config-file /etc/zaqar_redis/zaqar_redis.conf
    """

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._worst = Severity.NOTE
        return super().run(parsed_args) or _CODES[self._worst]

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        quiet_logging(channels=True)  # the findings say what is unreachable
        conf = configuration.read([], parsed_args.config_file)
        found = [*_configuration(conf), *self._stores(conf, parsed_args)]
        self._worst = max((each.severity for _, each in found), default=Severity.NOTE)
        found.sort(key=lambda finding: -finding[1].severity)
        return ("severity", "where", "what", "remedy"), [_row(*each) for each in found]

    def _stores(self, conf: cfg.ConfigOpts, parsed: argparse.Namespace) -> Iterator[Finding]:
        try:
            settings = configuration.settings(conf, BatchSettings)
            with stores.running_store(self.target) as uri:
                for name, store_uri in self._uris(conf, parsed, uri):
                    for each in _examined(store_uri, settings):
                        yield name, each
        except (errors.BadConfiguration, cfg.Error) as why:
            yield str(self.target), error(errors.reason(why), "mend the configuration")

    def _uris(
        self, conf: cfg.ConfigOpts, parsed: argparse.Namespace, uri: str
    ) -> Iterator[tuple[str, str]]:
        """Yields the stores by name, each Redis once."""
        shown = self.target.store
        named = [(f"store {shown}", uri)]
        if control := configuration.settings(conf, StorageSettings).control_uri:
            named.append((f"control store {uris.redact_password(control)}", control))
        for number, each in enumerate(configuration.settings(conf, ChannelsSettings).uris, 1):
            named.append((f"channels {number} {uris.redact_password(each)}", each))
        try:
            with stores.open_pools(conf, uri) as pools:
                named += [(f"pool {pool.name}", pool.uri) for pool in pools]
        except errors.Unavailable:
            pass  # the findings of the store say so
        seen = set()
        for name, each in named:
            if (spelling := uris.canonical(each)) not in seen:
                seen.add(spelling)
                yield name, uris.to_redis_uri(each)


def _examined(uri: str, settings: BatchSettings) -> Iterator[Diagnosis]:
    parts = urlsplit(uri)
    if parts.scheme == "memory":
        yield warning("it is the memory of one process", "use it for development only")
        return
    if parts.scheme == "redis" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        yield note(
            "it is reached without TLS", "use rediss:// unless the network is for them alone"
        )
    try:
        yield from diagnose(server_facts.examine(uri, settings))
    except errors.Unavailable as why:
        yield error(
            f"it does not answer: {errors.reason(why.__cause__ or why)}",
            "start it, or mend address, password and network",
        )


def _configuration(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    where = ", ".join(conf.config_file) or "configuration"
    for problem in configuration.problems(conf) + service_factory.problems(conf):
        yield where, error(problem, "`zaqar-redis config check` lists this, too")
    try:
        for each in _insecure(conf):
            yield where, each
    except cfg.Error:
        pass  # an invalid value: it is among the problems
    for path in conf.config_file:
        mode = os.stat(path).st_mode
        if mode & stat.S_IROTH and any(_secrets(conf)):
            yield path, warning("everybody on this machine can read its secrets", "chmod o-r")


def _insecure(conf: cfg.ConfigOpts) -> Iterator[Diagnosis]:
    auth = configuration.settings(conf, AuthSettings)
    listen = configuration.settings(conf, ListenSettings)
    if "none" in auth.strategy:
        if auth.insecure:
            yield error(
                f"[auth] insecure: whoever reaches {listen.bind}:{listen.port} may do everything",
                "choose a strategy: key, jwt or keystone",
            )
        else:
            yield note(
                f"[auth] strategy is none: every user of this machine may do everything at "
                f"{listen.bind}:{listen.port}",
                "choose a strategy when there are others on it: key, jwt or keystone",
            )
    if configuration.settings(conf, ServerApiSettings).insecure:
        yield error("[channels] api_insecure: /api takes calls without a key", "set api_key")
    if configuration.settings(conf, SessionSettings).insecure:
        yield error(
            "[channels] insecure: clients connect without a token", "give them tokens, or a proxy"
        )
    if "*" in configuration.settings(conf, ChannelsSettings).allowed_origins:
        yield warning(
            "[channels] allowed_origins: * lets every web page connect", "name your pages' origins"
        )


def _secrets(conf: cfg.ConfigOpts) -> Iterator[Any]:
    """Yields the secrets that the files have."""
    for group, options in configuration.groups(conf).items():
        of = None if group == environment.DEFAULT else group
        for option in options:
            if option.secret and configuration.origin(conf, of, option.dest):
                yield (conf[of] if of else conf)[option.dest]


def _row(where: str, found: Diagnosis) -> Row:
    return found.severity.name.lower(), where, found.what, found.remedy
