# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis pool …`` and ``zaqar-redis flavor …``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne
from tqdm import tqdm

from zaqar_redis.cli.api import ApiClient, CommandFailed
from zaqar_redis.cli.arguments import is_structured_output, json_object, resource_name
from zaqar_redis.cli.base import ApiCommand, DestructiveCommand

_COLUMNS = ("name", "uri", "weight", "flavor", "draining")
Row = tuple[Any, ...]
#: Seconds between polls of a pool that is being drained.
_POLL_INTERVAL_SECONDS = 0.5


def _add_pool_options(parser: argparse.ArgumentParser, required: bool) -> None:
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


def _pool_document(parsed: argparse.Namespace) -> dict[str, Any]:
    names = ("uri", "weight", "flavor", "options", "adopt")
    return {name: getattr(parsed, name) for name in names if getattr(parsed, name) is not None}


def _show_pool(api: ApiClient, name: str) -> tuple[tuple[str, ...], Row]:
    pool = api.request("GET", f"/pools/{name}", detailed=True)
    columns = (*_COLUMNS, "queues", "options")
    return columns, tuple(pool[column] for column in columns)


class PoolCommand(ApiCommand):
    """Base of the commands for one pool."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", type=resource_name, help="of the pool")
        return parser


class ListPool(ApiCommand, Lister):
    """List pools.

    Example: zaqar-redis pool list --url http://127.0.0.1:8888
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        with self.open_api(parsed_args) as api:
            pools = list(api.list_items("/pools", "pools"))
        return _COLUMNS, [tuple(pool[column] for column in _COLUMNS) for pool in pools]


class ShowPool(PoolCommand, ShowOne):
    """Show a pool, and how many queues are in it.

    Example: zaqar-redis pool show one
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            return _show_pool(api, parsed_args.name)


class CreatePool(PoolCommand, ShowOne):
    """Create a pool, or replace one.

    Example: zaqar-redis pool create one --uri redis://10.0.0.7:6379 --weight 100
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_pool_options(parser, required=True)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            document = {"weight": 100} | _pool_document(parsed_args)
            api.request("PUT", f"/pools/{parsed_args.name}", document)
            return _show_pool(api, parsed_args.name)


class UpdatePool(PoolCommand, ShowOne):
    """Change the given options of a pool.

    Example: zaqar-redis pool update one --weight 50
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_pool_options(parser, required=False)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            api.request("PATCH", f"/pools/{parsed_args.name}", _pool_document(parsed_args))
            return _show_pool(api, parsed_args.name)


class DeletePool(PoolCommand, DestructiveCommand):
    """Remove a pool that has no queues and is in no flavor.

    Example: zaqar-redis pool delete one
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Delete the pool {parsed_args.name}")
        with self.open_api(parsed_args) as api:
            api.request("DELETE", f"/pools/{parsed_args.name}")


class DrainPool(PoolCommand):
    """Move all queues of a pool to others of their flavor, or to the default pool, and wait for it.

    The pool gets no new queues from now on; with --undo it gets new ones again. The service
    goes on draining when this command is interrupted. Fails when queues cannot move. Example:

        zaqar-redis pool drain one
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--undo", action="store_true", help="let it get new queues again")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        path = f"/pools/{parsed_args.name}"

        def poll() -> tuple[int, dict[str, Any]]:
            pool = api.request("GET", path, detailed=True)
            return pool["queues"], pool["stayed"]

        with self.open_api(parsed_args) as api:
            api.request("PATCH", path, {"draining": not parsed_args.undo})
            if not parsed_args.undo:
                _wait_until_moved(api, f"draining {parsed_args.name}", poll)


class RebalancePools(ApiCommand, Lister):
    """Spread queues over the pools by weight, and wait for it.

    Each pool gets its share of the queues of its flavor; queues without a flavor move from
    the service's own store ("default") to pools without one. --dry-run only shows how many
    queues each has and should have ("due"); --stop ends a rebalance that another command has
    started. The service goes on when this command is interrupted. Example:

        zaqar-redis pool rebalance --dry-run
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument("--dry-run", action="store_true", help="move nothing")
        instead.add_argument("--stop", action="store_true", help="end a running rebalance")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        path = "/rebalance"

        def poll() -> tuple[int, dict[str, Any]]:
            now = api.request("GET", path)
            left = sum(max(0, store["queues"] - store["due"]) for store in now["stores"])
            # Besides those, queues may be in a pool of another flavor than their own.
            return max(1, left) if now["running"] else 0, now["stayed"]

        with self.open_api(parsed_args) as api:
            if parsed_args.stop:
                api.request("DELETE", path)
            elif not parsed_args.dry_run:
                api.request("PUT", path)
                _wait_until_moved(api, "rebalancing", poll)
            stores = api.request("GET", path)["stores"]
        columns = ("name", "queues", "due")
        return columns, [tuple(store[column] for column in columns) for store in stores]


def _wait_until_moved(
    api: ApiClient, what: str, poll: Callable[[], tuple[int, dict[str, Any]]]
) -> None:
    """Shows how many queues are left until none is.  Raises CommandFailed when some stay."""
    left, stayed = poll()
    with tqdm(total=left, unit="queue", desc=what) as progress:
        while left > stayed["queues"]:
            # Without a service, this process moves them while it sleeps.
            api.sleep(_POLL_INTERVAL_SECONDS)
            now, stayed = poll()
            progress.update(max(0, left - now))
            left = min(left, now)
    if stayed["queues"]:
        raise CommandFailed(
            "\n".join([f"{stayed['queues']} queues could not be moved:", *stayed["why"]])
        )


def _show_flavor(api: ApiClient, parsed: argparse.Namespace) -> tuple[Row, Row]:
    flavor = api.request("GET", f"/flavors/{parsed.name}")
    return ("name", "pools"), _flavor_row(flavor, parsed)


def _flavor_row(flavor: dict[str, Any], parsed: argparse.Namespace) -> Row:
    pools = flavor["pool_list"]
    return flavor["name"], pools if is_structured_output(parsed) else " ".join(pools)


class FlavorCommand(ApiCommand):
    """Base of the commands for one flavor."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", type=resource_name, help="of the flavor")
        return parser


class ListFlavor(ApiCommand, Lister):
    """List flavors and their pools.

    Example: zaqar-redis flavor list -f json
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        with self.open_api(parsed_args) as api:
            flavors = list(api.list_items("/flavors", "flavors"))
        return ("name", "pools"), [_flavor_row(flavor, parsed_args) for flavor in flavors]


class ShowFlavor(FlavorCommand, ShowOne):
    """Show a flavor.

    Example: zaqar-redis flavor show fast
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            return _show_flavor(api, parsed_args)


class CreateFlavor(FlavorCommand, ShowOne):
    """Create a flavor of pools, or replace its pools.

    Example: zaqar-redis flavor create fast one two
    """

    method = "PUT"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("pool", nargs="+", help="its pools")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            document = {"pool_list": parsed_args.pool}
            api.request(self.method, f"/flavors/{parsed_args.name}", document)
            return _show_flavor(api, parsed_args)


class UpdateFlavor(CreateFlavor):
    """Replace the pools of an existing flavor.

    Example: zaqar-redis flavor update fast one
    """

    method = "PATCH"


class DeleteFlavor(FlavorCommand, DestructiveCommand):
    """Remove a flavor; its pools stay.

    Example: zaqar-redis flavor delete fast
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Delete the flavor {parsed_args.name}")
        with self.open_api(parsed_args) as api:
            api.request("DELETE", f"/flavors/{parsed_args.name}")
