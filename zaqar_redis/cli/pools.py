# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis pool …`` and ``zaqar-redis flavor …``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from cliff.lister import Lister

from zaqar_redis.cli.api import ApiClient, CommandFailed
from zaqar_redis.cli.base import ApiCommand, Column, Table, json_object, table
from zaqar_redis.cli.resources import (
    DeleteResource,
    ListResource,
    NamedResourceCommand,
    PutResource,
    ShowResource,
)

_COLUMNS = ("name", "uri", "weight", "flavor", "draining")
_FLAVOR_COLUMNS = ("name", Column("pools", field="pool_list", as_text=" ".join))
#: Seconds between polls of a pool that is being drained.
_POLL_INTERVAL_SECONDS = 0.5


class PoolCommand(NamedResourceCommand):
    """Base of the commands for one pool."""

    noun = "pool"
    columns = (*_COLUMNS, "queues", "options")
    query = {"detailed": True}


class ListPool(ListResource):
    """List pools.

    Example: zaqar-redis pool list --url http://127.0.0.1:8888
    """

    noun = "pool"
    columns = _COLUMNS


class ShowPool(PoolCommand, ShowResource):
    """Show a pool, and its number of queues.

    Example: zaqar-redis pool show one
    """


class PutPool(PoolCommand, PutResource):
    """Base of the commands that create and change a pool."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add, required = parser.add_argument, self.method == "PUT"
        add("--uri", required=required, help="its store, e.g. redis://host:6379/0")
        add("--weight", type=int, help="its share of new queues; 0 for none (100)")
        add("--flavor", help="its group; empty for none")
        add("--options", type=json_object, metavar="JSON", help="its own [redis] settings")
        add(
            "--adopt",
            action="store_const",
            const=True,
            help="take over a store that belongs to another installation, or has queues of its own",
        )
        return parser

    def document(self, parsed: argparse.Namespace) -> dict[str, Any]:
        names = ("uri", "weight", "flavor", "options", "adopt")
        return {name: getattr(parsed, name) for name in names if getattr(parsed, name) is not None}


class CreatePool(PutPool):
    """Create a pool, or replace one.

    Example: zaqar-redis pool create one --uri redis://10.0.0.7:6379 --weight 100
    """

    resets = ("weight", "flavor", "options")

    def document(self, parsed: argparse.Namespace) -> dict[str, Any]:
        return {"weight": 100} | super().document(parsed)


class UpdatePool(PutPool):
    """Change the given options of a pool.

    Example: zaqar-redis pool update one --weight 50
    """

    method = "PATCH"


class DeletePool(PoolCommand, DeleteResource):
    """Remove a pool that has no queues and is in no flavor.

    Example: zaqar-redis pool delete one
    """

    probe = ""


class DrainPool(PoolCommand):
    """Move all queues of a pool to others of their flavor, or to the default pool, and wait.

    The pool gets no new queues from now on; with --undo it gets new ones again. The service
    continues if this command is interrupted. Fails if queues cannot move. Example:

        zaqar-redis pool drain one
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--undo", action="store_true", help="let it get new queues again")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        path = self.path(parsed_args)

        def poll() -> tuple[int, dict[str, Any]]:
            pool = api.request("GET", path, detailed=True)
            return pool["queues"], pool["stayed"]

        with self.open_api(parsed_args) as api:
            api.request("PATCH", path, {"draining": not parsed_args.undo})
            if not parsed_args.undo:
                _wait_until_moved(self, api, f"draining {parsed_args.name}", poll)


class RebalancePools(ApiCommand, Lister):
    """Spread queues over the pools by weight, and wait.

    Each pool gets its share of the queues of its flavor; queues without a flavor move from
    the service's own store ("default") to pools without one. --dry-run only shows the actual
    and the intended ("due") number of queues of each pool. --stop ends a running rebalance.
    The service continues if this command is interrupted. Example:

        zaqar-redis pool rebalance --dry-run
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument("--dry-run", action="store_true", help="move nothing")
        instead.add_argument("--stop", action="store_true", help="end a running rebalance")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
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
                _wait_until_moved(self, api, "rebalancing", poll)
            stores = api.request("GET", path)["stores"]
        return table(("name", "queues", "due"), stores, parsed_args)


def _wait_until_moved(
    command: ApiCommand,
    api: ApiClient,
    what: str,
    poll: Callable[[], tuple[int, dict[str, Any]]],
) -> None:
    """Shows how many queues are left until none is.  Raises CommandFailed when some stay."""
    left, stayed = poll()
    with command.progress(what, "queue", total=left) as progress:
        while left > stayed["queues"]:
            # Without a service, this process moves them while it sleeps.
            api.sleep(_POLL_INTERVAL_SECONDS)
            now, stayed = poll()
            progress.update(max(0, left - now))
            left = min(left, now)
    if stayed["queues"]:
        lines = [f"{stayed['queues']} queues could not be moved:", *stayed["why"]]
        if more := stayed["queues"] - len(stayed["why"]):
            lines.append(f"and {more} more")
        raise CommandFailed("\n".join(lines))


class FlavorCommand(NamedResourceCommand):
    """Base of the commands for one flavor."""

    noun = "flavor"
    columns = _FLAVOR_COLUMNS


class ListFlavor(ListResource):
    """List flavors and their pools.

    Example: zaqar-redis flavor list -f json
    """

    noun = "flavor"
    columns = _FLAVOR_COLUMNS


class ShowFlavor(FlavorCommand, ShowResource):
    """Show a flavor.

    Example: zaqar-redis flavor show fast
    """


class CreateFlavor(FlavorCommand, PutResource):
    """Create a flavor of pools, or replace its pools.

    Example: zaqar-redis flavor create fast one two
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("pool", nargs="+", help="its pools")
        return parser

    def document(self, parsed: argparse.Namespace) -> dict[str, Any]:
        return {"pool_list": parsed.pool}


class UpdateFlavor(CreateFlavor):
    """Replace the pools of an existing flavor.

    Example: zaqar-redis flavor update fast one
    """

    method = "PATCH"


class DeleteFlavor(FlavorCommand, DeleteResource):
    """Remove a flavor; its pools stay.

    Example: zaqar-redis flavor delete fast
    """

    probe = ""
