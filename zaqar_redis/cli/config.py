# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis config …``: the values of the configuration, and its problems."""

from __future__ import annotations

import argparse
from typing import Any

from cliff.lister import Lister
from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.cli import service_factory
from zaqar_redis.cli.base import ShellCommand, Table
from zaqar_redis.conf.files import DEFAULT
from zaqar_redis.keyspace.uris import redact_password

#: Options with URIs of stores, whose passwords are not shown.
_URIS = ("uri", "control_uri", "uris")


class ConfigCommand(ShellCommand):
    """Base of the commands for configuration files."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--config-file",
            action="append",
            metavar="FILE",
            help="configuration file; may be given more than once, the last one wins (default: "
            "~/.zaqar_redis/zaqar_redis.conf, ~/zaqar_redis.conf, "
            "/etc/zaqar_redis/zaqar_redis.conf or /etc/zaqar_redis.conf)",
        )
        return parser


class CheckConfig(ConfigCommand):
    """List the problems of the configuration that would keep a service from starting.

    Unknown options and groups, invalid values, options that contradict each other: a line
    for each. Nothing is started, and no store is contacted. Exits with 1 when there are
    problems. Example:

        zaqar-redis config check --config-file /etc/zaqar_redis/zaqar_redis.conf
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        conf = configuration.read([], parsed_args.config_file)
        if found := configuration.problems(conf) + service_factory.problems(conf):
            raise errors.BadConfiguration("\n".join(found))
        files = ", ".join([*conf.config_file, *conf.config_dir]) or "no configuration file"
        self.app.stdout.write(f"{files}: no problems found\n")


class ShowConfig(ConfigCommand, Lister):
    """List all options with their effective values, and where each comes from.

    Keys and passwords are hidden. Example:

        zaqar-redis config show -f csv
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        conf = configuration.load([], parsed_args.config_file)
        return ("group", "option", "value", "from"), [
            (group, option.dest, *_shown(conf, group, option))
            for group, options in configuration.groups(conf).items()
            for option in options
        ]


def _shown(conf: cfg.ConfigOpts, group: str, option: cfg.Opt) -> tuple[str, str]:
    """Returns the option's value as text, and its origin."""
    of = None if group == DEFAULT else group
    value = (conf[of] if of else conf)[option.dest]
    return _text(option, value), configuration.origin(conf, of, option.dest) or "default"


def _text(option: cfg.Opt, value: Any) -> str:
    if value is None:
        return ""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    if option.dest in _URIS:
        return ", ".join(map(redact_password, text.split(", ")))
    return "***" if option.secret and text else text
