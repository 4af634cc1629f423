# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis queue …``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from zaqar_redis.cli.session import Destructive, Talking, json_object, name_of, structured

Row = tuple[Any, ...]


def path_of(queue: str) -> str:
    """Below ``/v2``."""
    return f"/queues/{queue}"


class OfQueue(Talking):
    """Base of the commands for one queue."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("queue", type=name_of, help="its name")
        return parser


class QueueList(Talking, Lister):
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
        with self.opened(parsed_args) as session:
            found = list(
                session.pages("/queues", "queues", name=parsed_args.name, detailed=detailed)
            )
        if detailed:
            as_is = structured(parsed_args)
            return ("name", "metadata"), [
                (queue["name"], queue["metadata"] if as_is else json.dumps(queue["metadata"]))
                for queue in found
            ]
        return ("name",), [(queue["name"],) for queue in found]


class QueueCreate(OfQueue):
    """Make a queue; one that is there stays as it is.

    Example: zaqar-redis queue create orders --metadata '{"_flavor": "fast"}'
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--metadata",
            type=json_object,
            default={},
            metavar="JSON",
            help="what it is to have, e.g. its flavor or defaults for its messages ({})",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.opened(parsed_args) as session:
            session.ask("PUT", path_of(parsed_args.queue), parsed_args.metadata)
        self.app.stdout.write(f"{parsed_args.queue}\n")


class QueueShow(OfQueue, ShowOne):
    """Show a queue's metadata, defaults included.

    Example: zaqar-redis queue show orders
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.opened(parsed_args) as session:
            metadata = session.ask("GET", path_of(parsed_args.queue))
        return tuple(metadata), tuple(metadata.values())


class QueueStats(OfQueue, ShowOne):
    """Count a queue's messages, and say how old the oldest and the newest are.

    Example: zaqar-redis queue stats orders
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.opened(parsed_args) as session:
            document = session.ask("GET", f"{path_of(parsed_args.queue)}/stats")
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


class QueueLocate(OfQueue, ShowOne):
    """Show which pool a queue lives in; "default" is the service's own store.

    Example: zaqar-redis queue locate orders
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.opened(parsed_args) as session:
            found = session.ask("GET", f"{path_of(parsed_args.queue)}/pool")
        return tuple(found), tuple(found.values())


class QueuePurge(OfQueue, Destructive):
    """Remove all messages and claims of a queue; the queue stays.

    Example: zaqar-redis queue purge orders --yes
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Remove all messages of {parsed_args.queue}")
        with self.opened(parsed_args) as session:
            session.ask("POST", f"{path_of(parsed_args.queue)}/purge")


class QueueDelete(OfQueue, Destructive):
    """Remove a queue with everything in it.

    Example: zaqar-redis queue delete orders --yes
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Delete the queue {parsed_args.queue} and its messages")
        with self.opened(parsed_args) as session:
            session.ask("DELETE", path_of(parsed_args.queue))
