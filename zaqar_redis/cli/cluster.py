# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis cluster``: what a load needs."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable

from cliff.lister import Lister

from zaqar_redis.cli.api import print_warning
from zaqar_redis.cli.base import ShellCommand, Table
from zaqar_redis.sizing import plan

#: Seconds of the units that a rate may have.
_UNITS = {"s": 1, "min": 60, "h": 3600, "day": 86_400}


class PlanCluster(ShellCommand, Lister):
    """Print what a load needs: Redis, workers, memory, nodes, network, connections.

    Plain arithmetic over measured costs; nothing is contacted. Rates are averages, as 2000,
    2000/s or 1e9/day. Example:

        zaqar-redis cluster plan --messages 1e9/day --size 1000 --retention 60 --queues 1000000
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        defaults = plan.ClusterLoad(messages=1)

        def add(name: str, of: Callable[[str], float], metavar: str, text: str) -> None:
            default = getattr(defaults, name)
            parser.add_argument(
                "--" + name.replace("_", "-"),
                type=of,
                default=default,
                metavar=metavar,
                help=f"{text} ({plan.plain(default)})",
            )

        parser.add_argument(
            "--messages", type=rate, default=0.0, metavar="RATE", help="posted messages (0)"
        )
        add("size", whole, "BYTES", "size of a message's body, and of a publication")
        add("retention", float, "S", "time from a message's post to its deletion or expiry")
        add("queues", whole, "N", "number of queues")
        add("claims", float, "N", "claims of each message, with its deletion")
        add("batch", whole, "N", "messages in a post, and in a claim")
        add("long_polls", whole, "N", "concurrent long polls")
        add("sockets", whole, "N", "open WebSockets of channels")
        add("worker_sockets", whole, "N", "maximum of sockets and long polls of a worker")
        add("publications", rate, "RATE", "rate of publications to channels with history")
        add("fan_out", float, "N", "sockets that get a publication")
        add("replicas", whole, "N", "replicas of each Redis")
        add("peak", float, "N", "ratio of the busiest time to the average")
        add("utilisation", float, "SHARE", "maximum use of a core at the peak")
        add("maxmemory", float, "GB", "maximum memory of a Redis")
        add("cores", whole, "N", "cores of a node")
        add("memory", float, "GB", "of a node")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        fields = plan.ClusterLoad.__struct_fields__
        load = plan.ClusterLoad(**{name: getattr(parsed_args, name) for name in fields})
        found = plan.plan(load)
        for warning in found.warnings:
            print_warning(warning)
        return plan.PlanRow._fields, list(plan.rows(load, found))


def whole(text: str) -> int:
    """Parses a whole number, which may be written as 1e6."""
    try:
        return int(text)
    except ValueError:
        pass
    with contextlib.suppress(ValueError, OverflowError):
        if (number := float(text)) == int(number):
            return int(number)
    raise argparse.ArgumentTypeError(f'"{text}" is no whole number: give one, as 1000000 or 1e6')


def rate(text: str) -> float:
    """Parses a rate, in units a second: a number, or one with a unit of time, as 1e9/day."""
    number, _, unit = text.partition("/")
    seconds = _UNITS.get(unit or "s")
    if seconds is None:
        raise argparse.ArgumentTypeError(f'"{unit}": the unit must be {", ".join(_UNITS)}')
    try:
        return float(number) / seconds
    except ValueError:
        raise argparse.ArgumentTypeError(
            f'"{text}" is no rate: give a number, or e.g. 1e9/day'
        ) from None
