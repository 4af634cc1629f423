# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis config …``: what the configuration says, and what is wrong with it."""

from __future__ import annotations

import argparse
from typing import Any

from cliff.command import Command
from cliff.lister import Lister
from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.cli import configured
from zaqar_redis.conf.files import DEFAULT
from zaqar_redis.keyspace.client import printable

Row = tuple[Any, ...]
#: Options that are URIs of stores, which are shown without their passwords.
_URIS = ("uri", "control_uri", "uris")


class OfConfiguration(Command):
    """Base of the commands for configuration files."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.add_argument(
            "--config-file",
            action="append",
            metavar="FILE",
            help="configuration file; may be given more than once, the last one wins (that at "
            "the standard place: ~/.zaqar_redis/zaqar_redis.conf, ~/zaqar_redis.conf, "
            "/etc/zaqar_redis/zaqar_redis.conf or /etc/zaqar_redis.conf)",
        )
        return parser


class ConfigCheck(OfConfiguration):
    """Say what is wrong with the configuration, as a service would that starts with it.

    Options and groups that there are not, values that they cannot have, options that do
    not fit together: a line for each. Nothing is started, and no store is asked. Exits with
    1 when there is something. Example:

        zaqar-redis config check --config-file /etc/zaqar_redis/zaqar_redis.conf
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        conf = configuration.read([], parsed_args.config_file)
        if found := configuration.problems(conf) + configured.problems(conf):
            raise errors.BadConfiguration("\n".join(found))
        files = ", ".join([*conf.config_file, *conf.config_dir]) or "no configuration file"
        self.app.stdout.write(f"{files}: nothing is wrong\n")


class ConfigShow(OfConfiguration, Lister):
    """List all options with the values that count, and where each comes from.

    Keys and passwords are shown as ***. Example:

        zaqar-redis config show -f csv
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        conf = configuration.load([], parsed_args.config_file)
        return ("group", "option", "value", "from"), [
            (group, option.dest, *_shown(conf, group, option))
            for group, options in configuration.groups(conf).items()
            for option in options
        ]


def _shown(conf: cfg.ConfigOpts, group: str, option: cfg.Opt) -> tuple[str, str]:
    """The value, and its origin."""
    of = None if group == DEFAULT else group
    value = (conf[of] if of else conf)[option.dest]
    return _text(option, value), configuration.origin(conf, of, option.dest) or "default"


def _text(option: cfg.Opt, value: Any) -> str:
    if value is None:
        return ""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    if option.dest in _URIS:
        return ", ".join(map(printable, text.split(", ")))
    return "***" if option.secret and text else text
