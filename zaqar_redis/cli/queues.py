# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis queue …``."""

from __future__ import annotations

import argparse
import json

from cliff.show import ShowOne

from zaqar_redis.cli.base import Column, DestructiveCommand, Row, Table, json_object
from zaqar_redis.cli.resources import (
    DeleteResource,
    ListResource,
    NamedResourceCommand,
    ShowResource,
)


class QueueCommand(NamedResourceCommand):
    """Base of the commands for one queue."""

    noun = argument = "queue"


class ListQueue(ListResource):
    """List the queues of a project, by name.

    Example: zaqar-redis queue list --project shop -f csv
    """

    noun = "queue"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--name", help="only those whose name contains this")
        parser.add_argument("--detailed", action="store_true", help="with their metadata")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        detailed = parsed_args.detailed
        metadata = (Column("metadata", as_text=json.dumps),) if detailed else ()
        shown = ("name", *metadata)
        return self.listed(parsed_args, shown, name=parsed_args.name, detailed=detailed)


class CreateQueue(QueueCommand):
    """Create a queue; an existing one stays as it is.

    Example: zaqar-redis queue create orders --metadata '{"_flavor": "fast"}'
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--metadata",
            type=json_object,
            default={},
            metavar="JSON",
            help="its metadata, e.g. its flavor or defaults for its messages ({})",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.open_api(parsed_args) as api:
            api.request("PUT", self.path(parsed_args), parsed_args.metadata)
        self.app.stdout.write(f"{parsed_args.name}\n")


class ShowQueue(QueueCommand, ShowResource):
    """Show a queue's metadata, defaults included.

    Example: zaqar-redis queue show orders
    """


class ShowQueueStats(QueueCommand, ShowOne):
    """Show how many messages a queue has, their ages, and what has happened to them.

    Ages are in seconds; what ends in _total counts since the queue was created.

    Example: zaqar-redis queue stats orders
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            document = api.request("GET", f"{self.path(parsed_args)}/stats", detailed="true")
        stats = document["messages"]
        shown = {
            # Services of the version before have neither delayed messages nor counters.
            **{name: stats.get(name) for name in ("free", "claimed", "delayed", "total")},
            **{f"{end}_age": stats.get(end, {}).get("age") for end in ("oldest", "newest")},
            "idempotency_records": document.get("idempotency_records", 0),
            **{f"{name}_total": count for name, count in document.get("counters", {}).items()},
        }
        return tuple(shown), tuple(shown.values())


class LocateQueue(QueueCommand, ShowResource):
    """Show which pool a queue is in; "default" is the service's own store.

    Example: zaqar-redis queue locate orders
    """

    def path(self, parsed: argparse.Namespace) -> str:
        return f"{super().path(parsed)}/pool"


class PurgeQueue(QueueCommand, DestructiveCommand):
    """Remove all messages and claims of a queue; the queue stays.

    Example: zaqar-redis queue purge orders --yes
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Remove all messages of {parsed_args.name}")
        with self.open_api(parsed_args) as api:
            api.request("POST", f"{self.path(parsed_args)}/purge")


class DeleteQueue(QueueCommand, DeleteResource):
    """Remove a queue with everything in it.

    Example: zaqar-redis queue delete orders --yes
    """

    def question(self, parsed: argparse.Namespace) -> str:
        return f"Delete the queue {parsed.name} and its messages"
