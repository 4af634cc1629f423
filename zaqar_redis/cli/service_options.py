# SPDX-License-Identifier: Apache-2.0
"""The options of the command line that set options of the service, above all other sources."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping

from oslo_config import cfg

from zaqar_redis import errors
from zaqar_redis.cli import target
from zaqar_redis.cli.base import arg, takes
from zaqar_redis.conf.groups import LISTEN

#: (group, option) -> the option of the command line, or the variable, that sets it
Origins = Mapping[tuple[str | None, str], str]


def _workers(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text}: it must be a number from 1 to 256")
    return int(text)


STORE = arg(
    "--storage",
    metavar="URI",
    help="the store: embedded://[/directory], redis://host, rediss://host, unix:///socket, "
    "redis+sentinel://host,host/name, redis+cluster://host,host or memory:// "
    f"({target.URI_VARIABLE}; embedded://)",
)
FILES = arg(
    "--config-file",
    action="append",
    metavar="FILE",
    help="configuration file; may be given more than once, the last one wins (default: "
    "~/.zaqar_redis/zaqar_redis.conf, ~/zaqar_redis.conf, "
    "/etc/zaqar_redis/zaqar_redis.conf or /etc/zaqar_redis.conf)",
)
ALL = takes(
    arg("--bind", metavar="HOST:PORT", help="address to listen on (127.0.0.1:8888)"),
    arg("--workers", type=_workers, metavar="N", help="worker processes (1)"),
    STORE,
    arg(
        "--admin",
        action="store_true",
        help="serve pools, flavors and health to everybody who reaches the service; with "
        "authentication only to administrators",
    ),
    arg(
        "--insecure",
        action="store_true",
        help="allow addresses other than loopback without authentication",
    ),
    FILES,
)


def apply(conf: cfg.ConfigOpts, parsed: argparse.Namespace) -> Origins:
    """Sets what the command line says.  Raises BadConfiguration."""
    origins: dict[tuple[str | None, str], str] = {}

    def override(group: str | None, option: str, value: object, origin: str) -> None:
        conf.set_override(option, value, group=group)
        origins[group, option] = origin

    try:
        if parsed.bind is not None:
            host, port = _address(parsed.bind)
            override(LISTEN, "bind", host, "--bind")
            override(LISTEN, "port", port, "--bind")
        if parsed.workers is not None:
            override("server", "workers", parsed.workers, "--workers")
        if parsed.storage:
            override("storage", "uri", parsed.storage, "--storage")
        elif uri := os.environ.get(target.URI_VARIABLE):
            override("storage", "uri", uri, target.URI_VARIABLE)
        if parsed.insecure:
            override("auth", "insecure", True, "--insecure")
        if parsed.admin:
            override(None, "admin_mode", True, "--admin")
    except (cfg.Error, ValueError) as error:
        raise errors.BadConfiguration(str(error)) from error
    return origins


def _address(bind: str) -> tuple[str, int]:
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:]*))(?::(\d+))?", bind)
    if not found or int(found[3] or 0) > 65535:
        raise ValueError(f"--bind {bind}: it must be HOST:PORT, HOST or :PORT")
    return found[1] or found[2] or "127.0.0.1", int(found[3] or 8888)
