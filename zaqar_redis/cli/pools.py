# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis pool …`` and ``zaqar-redis flavor …``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from cliff.lister import Lister

from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import (
    ApiCommand,
    Column,
    Table,
    arg,
    given,
    json_object,
    one_of,
    table,
    takes,
)
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

    arguments = takes(
        lambda command, parser: parser.add_argument(
            "--uri", required=command.method == "PUT", help="its store, e.g. redis://host:6379/0"
        ),
        arg("--weight", type=int, help="its share of new queues; 0 for none (100)"),
        arg("--flavor", help="its group; empty for none"),
        arg("--options", type=json_object, metavar="JSON", help="its own [redis] settings"),
        arg(
            "--adopt",
            action="store_const",
            const=True,
            help="take over a store that belongs to another installation, or has queues of its own",
        ),
    )

    def document(self, parsed: argparse.Namespace) -> dict[str, Any]:
        return given(parsed, "uri", "weight", "flavor", "options", "adopt")


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

    arguments = takes(arg("--undo", action="store_true", help="let it get new queues again"))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        path = self.path(parsed_args)

        def poll() -> tuple[int, dict[str, Any]]:
            pool = self.api.request("GET", path, detailed=True)
            return pool["queues"], pool["stayed"]

        self.api.request("PATCH", path, {"draining": not parsed_args.undo})
        if not parsed_args.undo:
            _wait_until_moved(self, f"draining {parsed_args.name}", poll)


class RebalancePools(ApiCommand, Lister):
    """Spread queues over the pools by weight, and wait.

    Each pool gets its share of the queues of its flavor; queues without a flavor move from
    the service's own store ("default") to pools without one. --dry-run only shows the actual
    and the intended ("due") number of queues of each pool. --stop ends a running rebalance.
    The service continues if this command is interrupted. Example:

        zaqar-redis pool rebalance --dry-run
    """

    arguments = takes(
        one_of(
            arg("--dry-run", action="store_true", help="move nothing"),
            arg("--stop", action="store_true", help="end a running rebalance"),
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        path = "/rebalance"

        def poll() -> tuple[int, dict[str, Any]]:
            now = self.api.request("GET", path)
            left = sum(max(0, store["queues"] - store["due"]) for store in now["stores"])
            # Besides those, queues may be in a pool of another flavor than their own.
            return max(1, left) if now["running"] else 0, now["stayed"]

        if parsed_args.stop:
            self.api.request("DELETE", path)
        elif not parsed_args.dry_run:
            self.api.request("PUT", path)
            _wait_until_moved(self, "rebalancing", poll)
        stores = self.api.request("GET", path)["stores"]
        return table(("name", "queues", "due"), stores, parsed_args)


def _wait_until_moved(
    command: ApiCommand, what: str, poll: Callable[[], tuple[int, dict[str, Any]]]
) -> None:
    """Shows how many queues are left until none is.  Raises CommandFailed when some stay."""
    left, stayed = poll()
    with command.progress(what, "queue", total=left) as progress:
        while left > stayed["queues"]:
            # Without a service, this process moves them while it sleeps.
            command.api.sleep(_POLL_INTERVAL_SECONDS)
            now, stayed = poll()
            progress.update(max(0, left - now))
            left = min(left, now)
    if stayed["queues"]:
        lines = [f"{stayed['queues']} queues could not be moved:", *stayed["why"]]
        if more := stayed["queues"] - len(stayed["why"]):
            lines.append(f"and {more} more")
        raise CommandFailed("\n".join(lines))


class FlavorCommand(NamedResourceCommand):
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

    arguments = takes(arg("pool", nargs="+", help="its pools"))

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
