# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis pool …`` and ``zaqar-redis flavor …``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne
from tqdm import tqdm

from zaqar_redis.cli.session import (
    Destructive,
    Refused,
    Session,
    Talking,
    json_object,
    name_of,
    structured,
)

_COLUMNS = ("name", "uri", "weight", "flavor", "draining")
Row = tuple[Any, ...]
#: Seconds between looks at a pool that is being emptied.
_LOOK = 0.5


def _fields(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument("--uri", required=required, help="its store, e.g. redis://host:6379/0")
    parser.add_argument("--weight", type=int, help="its share of new queues; 0 for none (100)")
    parser.add_argument("--flavor", help="the group it belongs to; empty for none")
    parser.add_argument(
        "--options", type=json_object, metavar="JSON", help="its own [redis] settings"
    )
    parser.add_argument(
        "--adopt",
        action="store_const",
        const=True,
        help="take over a store that belongs to another installation, or has queues of its own",
    )


def _given(parsed: argparse.Namespace) -> dict[str, Any]:
    names = ("uri", "weight", "flavor", "options", "adopt")
    return {name: getattr(parsed, name) for name in names if getattr(parsed, name) is not None}


def _shown(session: Session, name: str) -> tuple[tuple[str, ...], Row]:
    pool = session.ask("GET", f"/pools/{name}", detailed=True)
    columns = (*_COLUMNS, "queues", "options")
    return columns, tuple(pool[column] for column in columns)


class OfPool(Talking):
    """Base of the commands for one pool."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", type=name_of, help="of the pool")
        return parser


class PoolList(Talking, Lister):
    """List pools.

    Example: zaqar-redis pool list --url http://127.0.0.1:8888
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        with self.opened(parsed_args) as session:
            pools = list(session.pages("/pools", "pools"))
        return _COLUMNS, [tuple(pool[column] for column in _COLUMNS) for pool in pools]


class PoolShow(OfPool, ShowOne):
    """Show a pool, and how many queues live in it.

    Example: zaqar-redis pool show one
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.opened(parsed_args) as session:
            return _shown(session, parsed_args.name)


class PoolCreate(OfPool, ShowOne):
    """Make a pool, or replace one.

    Example: zaqar-redis pool create one --uri redis://10.0.0.7:6379 --weight 100
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _fields(parser, required=True)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.opened(parsed_args) as session:
            document = {"weight": 100} | _given(parsed_args)
            session.ask("PUT", f"/pools/{parsed_args.name}", document)
            return _shown(session, parsed_args.name)


class PoolUpdate(OfPool, ShowOne):
    """Change what is given of a pool.

    Example: zaqar-redis pool update one --weight 50
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _fields(parser, required=False)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.opened(parsed_args) as session:
            session.ask("PATCH", f"/pools/{parsed_args.name}", _given(parsed_args))
            return _shown(session, parsed_args.name)


class PoolDelete(OfPool, Destructive):
    """Remove a pool that no queue and no flavor needs.

    Example: zaqar-redis pool delete one
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Delete the pool {parsed_args.name}")
        with self.opened(parsed_args) as session:
            session.ask("DELETE", f"/pools/{parsed_args.name}")


class PoolDrain(OfPool):
    """Move all queues of a pool to others of their flavor, or home, and wait for it.

    The pool gets no new queues from now on; with --undo it gets some again. It goes on
    draining when this command is interrupted. Fails when queues have to stay. Example:

        zaqar-redis pool drain one
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--undo", action="store_true", help="let it have queues again")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        path = f"/pools/{parsed_args.name}"

        def look() -> tuple[int, dict[str, Any]]:
            pool = session.ask("GET", path, detailed=True)
            return pool["queues"], pool["stayed"]

        with self.opened(parsed_args) as session:
            session.ask("PATCH", path, {"draining": not parsed_args.undo})
            if not parsed_args.undo:
                _follow(session, f"draining {parsed_args.name}", look)


class PoolRebalance(Talking, Lister):
    """Spread queues over the pools by weight, and wait for it.

    Each pool gets its share of the queues of its flavor; queues without one leave the
    service's own store ("default") for pools without one. --dry-run only shows what
    each has and should have, --stop ends what another command has begun; it goes on
    when this one is interrupted. Example:

        zaqar-redis pool rebalance --dry-run
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument("--dry-run", action="store_true", help="move nothing")
        instead.add_argument("--stop", action="store_true", help="end it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        path = "/rebalance"

        def look() -> tuple[int, dict[str, Any]]:
            now = session.ask("GET", path)
            left = sum(max(0, store["queues"] - store["due"]) for store in now["stores"])
            # Besides those, there may be queues in a pool of another flavor than their own.
            return max(1, left) if now["running"] else 0, now["stayed"]

        with self.opened(parsed_args) as session:
            if parsed_args.stop:
                session.ask("DELETE", path)
            elif not parsed_args.dry_run:
                session.ask("PUT", path)
                _follow(session, "rebalancing", look)
            stores = session.ask("GET", path)["stores"]
        columns = ("name", "queues", "due")
        return columns, [tuple(store[column] for column in columns) for store in stores]


def _follow(session: Session, what: str, look: Callable[[], tuple[int, dict[str, Any]]]) -> None:
    """Show how many queues are left until none is.  Raises Refused when some stay."""
    left, stayed = look()
    with tqdm(total=left, unit="queue", desc=what) as progress:
        while left > stayed["queues"]:
            # Straight at the store it is this process that moves them, in these moments.
            session.pause(_LOOK)
            now, stayed = look()
            progress.update(max(0, left - now))
            left = min(left, now)
    if stayed["queues"]:
        raise Refused("\n".join([f"{stayed['queues']} queues stay:", *stayed["why"]]))


def _flavor(session: Session, parsed: argparse.Namespace) -> tuple[Row, Row]:
    flavor = session.ask("GET", f"/flavors/{parsed.name}")
    return ("name", "pools"), _flavor_row(flavor, parsed)


def _flavor_row(flavor: dict[str, Any], parsed: argparse.Namespace) -> Row:
    pools = flavor["pool_list"]
    return flavor["name"], pools if structured(parsed) else " ".join(pools)


class OfFlavor(Talking):
    """Base of the commands for one flavor."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", type=name_of, help="of the flavor")
        return parser


class FlavorList(Talking, Lister):
    """List flavors and their pools.

    Example: zaqar-redis flavor list -f json
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        with self.opened(parsed_args) as session:
            flavors = list(session.pages("/flavors", "flavors"))
        return ("name", "pools"), [_flavor_row(flavor, parsed_args) for flavor in flavors]


class FlavorShow(OfFlavor, ShowOne):
    """Show a flavor.

    Example: zaqar-redis flavor show fast
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.opened(parsed_args) as session:
            return _flavor(session, parsed_args)


class FlavorCreate(OfFlavor, ShowOne):
    """Make a flavor of pools, or give it just these.

    Example: zaqar-redis flavor create fast one two
    """

    method = "PUT"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("pool", nargs="+", help="its pools")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.opened(parsed_args) as session:
            document = {"pool_list": parsed_args.pool}
            session.ask(self.method, f"/flavors/{parsed_args.name}", document)
            return _flavor(session, parsed_args)


class FlavorUpdate(FlavorCreate):
    """Give a flavor that is there other pools.

    Example: zaqar-redis flavor update fast one
    """

    method = "PATCH"


class FlavorDelete(OfFlavor, Destructive):
    """Remove a flavor; its pools stay.

    Example: zaqar-redis flavor delete fast
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Delete the flavor {parsed_args.name}")
        with self.opened(parsed_args) as session:
            session.ask("DELETE", f"/flavors/{parsed_args.name}")
