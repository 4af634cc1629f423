# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis config …``: the values of the configuration, and its problems."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from typing import Any

from cliff.lister import Lister
from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.cli import service_factory, service_options
from zaqar_redis.cli.base import ShellCommand, Table
from zaqar_redis.cli.insecure_options import insecure_options
from zaqar_redis.conf.environment import DEFAULT
from zaqar_redis.keyspace.uris import redact_password

#: Secret options in which only a password is secret.
SECRET_URIS = ("uri", "control_uri")


class ConfigCommand(ShellCommand):
    """Base of the commands for the configuration that `serve` would have with these options."""

    arguments = service_options.ALL


class CheckConfig(ConfigCommand):
    """List the problems of the configuration that would keep a service from starting.

    Prints a line for each unknown option, group or variable, invalid value, and contradiction.
    Starts nothing, and contacts no store. Exits with 1 if there are problems; otherwise lists
    options that open more than you may want. Example:

        zaqar-redis config check --config-file /etc/zaqar_redis/zaqar_redis.conf
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        conf = configuration.read([], parsed_args.config_file)
        service_options.apply(conf, parsed_args)
        # What it logs of a policy that it does not understand is among the problems.
        logging.getLogger("oslo_policy").setLevel(logging.CRITICAL)
        if found := configuration.problems(conf) + service_factory.problems(conf):
            raise errors.BadConfiguration("\n".join(found))
        files = ", ".join([*conf.config_file, *conf.config_dir]) or "no configuration file"
        self.app.stdout.write(f"{files}: no problems found\n")
        for severity, what, remedy in insecure_options(conf):
            if severity != "info":
                self.app.stdout.write(f"{severity}: {what} {remedy}\n")


class ShowConfig(ConfigCommand, Lister):
    """List all options with their effective values and sources.

    Options of the command line override variables of the environment, variables override files,
    and files override defaults. Keys and passwords are hidden. Example:

        zaqar-redis config show -f csv
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        return ("group", "option", "value", "from"), [
            (group, option.dest, _text(option, value), origin or "default")
            for group, option, value, origin in _values(parsed_args)
        ]


class DiffConfig(ConfigCommand, Lister):
    """List the options that differ from their defaults, with their sources.

    Keys and passwords are hidden. Example:

        zaqar-redis config diff --config-file /etc/zaqar_redis/zaqar_redis.conf
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        return ("group", "option", "value", "default", "from"), [
            (group, option.dest, _text(option, value), _text(option, option.default), origin)
            for group, option, value, origin in _values(parsed_args)
            if origin is not None and value != option.default
        ]


def _values(parsed: argparse.Namespace) -> Iterator[tuple[str, cfg.Opt, Any, str | None]]:
    """Yields group, option, value and origin of all options; None: it is the default."""
    conf = configuration.load([], parsed.config_file)
    origins = service_options.apply(conf, parsed)
    for group, options in configuration.groups(conf).items():
        of = None if group == DEFAULT else group
        for option in options:
            value = (conf[of] if of else conf)[option.dest]
            origin = origins.get((of, option.dest)) or configuration.origin(conf, of, option.dest)
            yield group, option, value, origin


def _text(option: cfg.Opt, value: Any) -> str:
    if value is None:
        return ""
    given = value if isinstance(value, list) else [value]
    text = ", ".join(redact_password(each) if "://" in each else each for each in map(str, given))
    return "***" if option.secret and text and option.dest not in SECRET_URIS else text
