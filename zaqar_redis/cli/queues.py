# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis queue …``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

from cliff.show import ShowOne

from zaqar_redis.cli.api import CommandFailed, counter_rates
from zaqar_redis.cli.base import (
    Column,
    Columns,
    DestructiveCommand,
    Row,
    Table,
    arg,
    bounded_int,
    json_object,
    json_text,
    single,
    table,
    takes,
)
from zaqar_redis.cli.resources import (
    DeleteResource,
    ListResource,
    NamedResourceCommand,
    ShowResource,
)

#: Claims, and subscriptions, that are counted: some ten requests.
_COUNTED_MAX = 200


class QueueCommand(NamedResourceCommand):
    noun = argument = "queue"
    is_of_project = True


class ListNamedResource(ListResource):
    """Base of the commands that list queues or topics."""

    arguments = takes(
        arg("--name", help="only names that contain this"),
        arg("--detailed", action="store_true", help="with their metadata"),
    )

    def shown(self, parsed: argparse.Namespace) -> Columns:
        return ("name", Column("metadata", as_text=json_text)) if parsed.detailed else ("name",)

    def chosen(self, parsed: argparse.Namespace) -> dict[str, object]:
        """Returns the query."""
        return {"name": parsed.name, "detailed": parsed.detailed}


class ListQueue(ListNamedResource):
    """List the queues of a project, by name.

    While a store is unavailable, its known queues are listed with the store's name, and the command
    exits with 5. Example:

        zaqar-redis queue list --project shop -f csv
    """

    noun = "queue"

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        unavailable: set[str] = set()
        found = self.api.list_queues(unavailable, **self.chosen(parsed_args))
        first = [*islice(found, 1)]  # of a page, which names the stores that are away
        shown = self.shown(parsed_args)
        if unavailable:
            shown = (*shown, "unavailable")
        return table(shown, self._marked(chain(first, found), unavailable), parsed_args)

    def _marked(
        self, found: Iterable[dict[str, Any]], unavailable: set[str]
    ) -> Iterator[dict[str, Any]]:
        yield from ({"unavailable": "", **queue} for queue in found)
        if unavailable:
            self.warn_incomplete(stores_away(unavailable))


def stores_away(
    names: Collection[str],
    so: str = "there may be more queues than those that are listed",
) -> str:
    """Returns what commands say while stores cannot be read; *so*: what follows from it."""
    listed = ", ".join(sorted(names))
    stores = f"store {listed} is" if len(names) == 1 else f"stores {listed} are"
    return f"{stores} away: {so}"


class CreateQueue(QueueCommand):
    """Create a queue; an existing one stays as it is.

    Example: zaqar-redis queue create orders --metadata '{"_flavor": "fast"}'
    """

    arguments = takes(
        arg(
            "--metadata",
            type=json_object,
            default={},
            metavar="JSON",
            help="its metadata, e.g. its flavor or defaults for its messages ({})",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.api.request("PUT", self.path(parsed_args), parsed_args.metadata)
        self.app.stdout.write(f"{parsed_args.name}\n")


class UpdateQueue(QueueCommand, ShowResource):
    """Change some of a queue's metadata, and show all of it.

    Other attributes stay. All changes are made, or none. A removed reserved attribute has its
    default again. Example:

        zaqar-redis queue update orders --set '{"_max_claim_count": 5}' --remove colour
    """

    arguments = takes(
        arg(
            "--set",
            type=json_object,
            default={},
            metavar="JSON",
            help="attributes with their new values",
        ),
        arg(
            "--remove",
            action="append",
            default=[],
            metavar="NAME",
            help="an attribute; may be given more than once",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        changes: list[dict[str, Any]] = [
            {"op": "add", "path": _pointer(name), "value": value}
            for name, value in parsed_args.set.items()
        ]
        changes += [{"op": "remove", "path": _pointer(name)} for name in parsed_args.remove]
        if not changes:
            raise CommandFailed("nothing to change: give --set or --remove")
        self.api.patch(self.path(parsed_args), changes)
        return self.shown(parsed_args)


def _pointer(name: str) -> str:
    """Returns the JSON pointer of an attribute."""
    return f"/metadata/{name.replace('~', '~0').replace('/', '~1')}"


class InspectQueue(QueueCommand, ShowOne):
    """Show everything about a queue: messages, rates, claims, dead letters, deliveries, metadata.

    The command waits for --seconds to measure rates; totals count since the creation of the queue.
    Example:

        zaqar-redis queue inspect orders --seconds 5
    """

    arguments = takes(
        arg(
            "--seconds",
            type=bounded_int(0, 3600),
            default=1,
            metavar="N",
            help="time to measure rates; 0: show none (1)",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        path = self.path(parsed_args)
        metadata = self.api.request("GET", path)
        before, began = self.api.queue_stats(parsed_args.name), time.monotonic()
        if parsed_args.seconds:
            self.api.sleep(parsed_args.seconds)
        document = self.api.queue_stats(parsed_args.name)
        seconds = time.monotonic() - began
        claims = list(islice(self.api.list_linked(f"{path}/claims", "claims"), _COUNTED_MAX))
        listed = self.api.list_items(f"{path}/subscriptions", "subscriptions", detailed=True)
        subscriptions = list(islice(listed, _COUNTED_MAX))
        counts, totals = document["messages"], document["counters"]
        shown: dict[str, Any] = {
            **{name: counts[name] for name in ("total", "free", "claimed", "delayed")},
            "oldest_age": counts.get("oldest", {}).get("age"),
            "newest_age": counts.get("newest", {}).get("age"),
            **{f"{name}_total": number for name, number in totals.items()},
        }
        if parsed_args.seconds:
            for name, rate in counter_rates(before, document, seconds).items():
                shown[f"{name}_per_second"] = round(rate, 1)
        shown["claims"] = _counted(claims)
        shown["next_claim_ends_in"] = claims[0]["ttl"] - claims[0]["age"] if claims else None
        shown["dead_letter_queue"] = metadata.get("_dead_letter_queue")
        shown["max_claim_count"] = metadata.get("_max_claim_count")
        shown["subscriptions"] = _counted(subscriptions)
        shown["subscriptions_paused"] = sum(each.get("paused", False) for each in subscriptions)
        for name in ("pending", "failed"):
            shown[f"deliveries_{name}"] = sum(each["deliveries"][name] for each in subscriptions)
        shown["metadata"] = metadata
        columns: Columns = [
            *list(shown)[:-1],
            Column("metadata", as_text=partial(json_text, indent=1)),
        ]
        return single(columns, shown, parsed_args)


def _counted(found: Sequence[object]) -> str | int:
    return f"{_COUNTED_MAX} or more" if len(found) == _COUNTED_MAX else len(found)


class ShowQueue(QueueCommand, ShowResource):
    """Show a queue's metadata, defaults included.

    Example: zaqar-redis queue show orders
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        self.api.require(self.path(parsed_args))
        return self.shown(parsed_args)


class ShowQueueStats(QueueCommand, ShowOne):
    """Show the number of a queue's messages, their ages, and counters.

    Ages are in seconds; counters end in _total, and count since the creation of the queue.

    Example: zaqar-redis queue stats orders
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        document = self.api.request("GET", f"{self.path(parsed_args)}/stats", detailed="true")
        stats = document["messages"]
        shown = {
            # Services of the version before have neither delayed messages nor counters.
            **{name: stats.get(name) for name in ("free", "claimed", "delayed", "total", "bytes")},
            **{f"{end}_age": stats.get(end, {}).get("age") for end in ("oldest", "newest")},
            "idempotency_records": document.get("idempotency_records", 0),
            **{f"{name}_total": count for name, count in document.get("counters", {}).items()},
        }
        return tuple(shown), tuple(shown.values())


class LocateQueue(QueueCommand, ShowResource):
    """Show the pool of a queue; "default" is the service's own store.

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
        self.api.require(self.path(parsed_args))
        self.api.request("POST", f"{self.path(parsed_args)}/purge")


class DeleteQueue(QueueCommand, DeleteResource):
    """Remove a queue with everything in it.

    Example: zaqar-redis queue delete orders --yes
    """

    probe = "/stats"

    def question(self, parsed: argparse.Namespace) -> str:
        return f"Delete the {self.noun} {parsed.name} and its messages"
