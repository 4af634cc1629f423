# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis queue …``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from zaqar_redis.cli.arguments import is_structured_output, json_object, resource_name
from zaqar_redis.cli.base import ApiCommand, DestructiveCommand

Row = tuple[Any, ...]


def queue_path(queue: str) -> str:
    """Returns the path of a queue, below ``/v2``."""
    return f"/queues/{queue}"


class QueueCommand(ApiCommand):
    """Base of the commands for one queue."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("queue", type=resource_name, help="its name")
        return parser


class ListQueue(ApiCommand, Lister):
    """List the queues of a project, by name.

    Example: zaqar-redis queue list --project shop -f csv
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--name", help="only those whose name contains this")
        parser.add_argument("--detailed", action="store_true", help="with their metadata")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        detailed = parsed_args.detailed
        with self.open_api(parsed_args) as api:
            found = list(
                api.list_items("/queues", "queues", name=parsed_args.name, detailed=detailed)
            )
        if detailed:
            as_is = is_structured_output(parsed_args)
            return ("name", "metadata"), [
                (queue["name"], queue["metadata"] if as_is else json.dumps(queue["metadata"]))
                for queue in found
            ]
        return ("name",), [(queue["name"],) for queue in found]


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
            api.request("PUT", queue_path(parsed_args.queue), parsed_args.metadata)
        self.app.stdout.write(f"{parsed_args.queue}\n")


class ShowQueue(QueueCommand, ShowOne):
    """Show a queue's metadata, defaults included.

    Example: zaqar-redis queue show orders
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            metadata = api.request("GET", queue_path(parsed_args.queue))
        return tuple(metadata), tuple(metadata.values())


class ShowQueueStats(QueueCommand, ShowOne):
    """Show how many messages a queue has, and the ages of the oldest and the newest.

    Example: zaqar-redis queue stats orders
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            document = api.request("GET", f"{queue_path(parsed_args.queue)}/stats")
        stats = document["messages"]
        ages = [stats[end]["age"] if end in stats else None for end in ("oldest", "newest")]
        columns = ("free", "claimed", "total", "oldest_age", "newest_age", "idempotency_records")
        return columns, (
            stats["free"],
            stats["claimed"],
            stats["total"],
            *ages,
            document.get("idempotency_records", 0),
        )


class LocateQueue(QueueCommand, ShowOne):
    """Show which pool a queue is in; "default" is the service's own store.

    Example: zaqar-redis queue locate orders
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            found = api.request("GET", f"{queue_path(parsed_args.queue)}/pool")
        return tuple(found), tuple(found.values())


class PurgeQueue(QueueCommand, DestructiveCommand):
    """Remove all messages and claims of a queue; the queue stays.

    Example: zaqar-redis queue purge orders --yes
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Remove all messages of {parsed_args.queue}")
        with self.open_api(parsed_args) as api:
            api.request("POST", f"{queue_path(parsed_args.queue)}/purge")


class DeleteQueue(QueueCommand, DestructiveCommand):
    """Remove a queue with everything in it.

    Example: zaqar-redis queue delete orders --yes
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Delete the queue {parsed_args.queue} and its messages")
        with self.open_api(parsed_args) as api:
            api.request("DELETE", queue_path(parsed_args.queue))
