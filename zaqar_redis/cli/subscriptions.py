# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis subscription …``, for those of queues and of topics."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from cliff.show import ShowOne

from zaqar_redis.cli.api import ApiClient, CommandFailed
from zaqar_redis.cli.base import (
    Column,
    Row,
    Table,
    arg,
    bounded_int,
    given,
    json_object,
    json_text,
    one_of,
    resource_name,
    single,
    table,
    takes,
)
from zaqar_redis.cli.messages import parse_assignment
from zaqar_redis.cli.paged_lists import PagedListCommand
from zaqar_redis.cli.resources import (
    DeleteResource,
    NamedResourceCommand,
    ResourceCommand,
    ShowResource,
)

#: Messages of a history that one request reads.
_HISTORY_STEP = 10_000
_COUNTS = ("delivered", "failed", "retried", "pending")


class SubscriptionSourceCommand(ResourceCommand):
    noun = "subscription"
    arguments = takes(
        one_of(
            arg("--queue", type=resource_name, help="the queue"),
            arg("--topic", type=resource_name, help="or the topic"),
            required=True,
        ),
    )

    def collection(self, parsed: argparse.Namespace) -> str:
        """Returns the path of the subscriptions, below ``/v2``."""
        source = f"/queues/{parsed.queue}" if parsed.queue else f"/topics/{parsed.topic}"
        return f"{source}/{self.plural}"


class SubscriptionCommand(SubscriptionSourceCommand, NamedResourceCommand):
    argument = "id"

    def path(self, parsed: argparse.Namespace) -> str:
        return f"{self.collection(parsed)}/{parsed.name}"


class ListSubscription(SubscriptionSourceCommand, PagedListCommand):
    """List the subscriptions to a queue or topic, by id.

    Example: zaqar-redis subscription list --queue orders --detailed
    """

    arguments = takes(arg("--detailed", action="store_true", help="with the state of deliveries"))

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        detailed = (*_COUNTS, "failing_since") if parsed_args.detailed else ()
        shown = ("id", "subscriber", "ttl", "age", "confirmed", "paused", *detailed)
        query = {"detailed": True} if parsed_args.detailed else {}
        found = self.api.list_items(self.collection(parsed_args), self.plural, **query)
        return table(shown, map(_flat, found), parsed_args)


def _flat(subscription: dict[str, Any]) -> dict[str, Any]:
    deliveries: dict[str, Any] = subscription.get("deliveries", {})
    return {"paused": False} | subscription | deliveries


class ShowSubscription(SubscriptionCommand, ShowResource):
    """Show a subscription, and the state of its deliveries.

    Example: zaqar-redis subscription show 5b1c0c7e-9d5e-4f0a-8a43-1f3d6f5a2b90 --topic news
    """

    def shown(self, parsed: argparse.Namespace) -> tuple[Row, Row]:
        document = self.api.request("GET", self.path(parsed), detailed=True)
        columns = (
            *("id", "source", "subscriber", "ttl", "age", "confirmed", "paused"),
            Column("options", as_text=json_text),
            *_COUNTS,
            "failing_since",
            Column("last_failure", as_text=lambda failure: json_text(failure) if failure else ""),
        )
        return single(columns, _flat(document), parsed)


def _filter(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        return json_object(text)
    try:
        return json_object(Path(text).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {text}: {error}") from error


_CHANGEABLE = takes(
    arg("--ttl", type=int, metavar="SECONDS", help="lifetime from now on; a new one has an hour"),
    arg(
        "--option",
        type=partial(parse_assignment, form="NAME=JSON"),
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="an option, e.g. timeout=5: JSON, or else a text; may be repeated",
    ),
    arg("--filter", type=_filter, metavar="FILE|JSON", help="the wanted messages"),
    arg("--batch", type=int, metavar="N", help="maximum of messages in one request"),
    arg(
        "--ordered",
        action="store_true",
        default=None,
        help="a message waits for the previous one",
    ),
    arg(
        "--dead-letter-queue",
        type=resource_name,
        metavar="QUEUE",
        help="queue for given-up messages",
    ),
)


def _options(parsed: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that are given."""
    own = given(parsed, "filter", "batch", "ordered", "dead_letter_queue")
    return dict(parsed.option) | own


class CreateSubscription(SubscriptionSourceCommand, ShowOne):
    """Subscribe; shows the id, and once the secret that signs requests to a webhook.

    Creates the queue or topic if it is missing. Example:

        zaqar-redis subscription create https://example.org/hook --queue orders --ttl 86400 \\
            --filter '{"attributes": {"kind": ["refund"]}}' --option timeout=5
    """

    arguments = takes(
        arg("subscriber", help="its URI, e.g. https://example.org/hook"), *_CHANGEABLE
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        document = given(parsed_args, "subscriber", "ttl") | {"options": _options(parsed_args)}
        created = self.api.request("POST", self.collection(parsed_args), document)
        shown = {"id": created["subscription_id"], **created}
        del shown["subscription_id"]
        return tuple(shown), tuple(shown.values())


class UpdateSubscription(ShowSubscription):
    """Change a subscription, and show it.

    Omitted options stay; null removes one. Example:

        zaqar-redis subscription update ID --queue orders --ttl 86400 --option timeout=null
    """

    arguments = takes(
        arg("--subscriber", metavar="URI", help="the new subscriber"),
        *_CHANGEABLE,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        changes = given(parsed_args, "subscriber", "ttl")
        options, path = _options(parsed_args), self.path(parsed_args)
        if not changes and not options:
            raise CommandFailed("nothing to change: give --subscriber, --ttl or an option")
        if options:
            stored = self.api.request("GET", path)["options"] | options
            changes["options"] = {
                name: value for name, value in stored.items() if value is not None
            }
        self.api.request("PATCH", path, changes)
        return self.shown(parsed_args)


class DeleteSubscription(SubscriptionCommand, DeleteResource):
    """End a subscription; waiting messages are not delivered.

    Example: zaqar-redis subscription delete ID --queue orders --yes
    """

    probe = ""


class ConfirmSubscription(SubscriptionCommand):
    """Confirm a subscription in place of its subscriber, or undo it.

    Example: zaqar-redis subscription confirm ID --queue orders
    """

    arguments = takes(arg("--undo", action="store_true", help="remove the confirmation"))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        document = {"confirmed": not parsed_args.undo}
        self.api.request("PUT", f"{self.path(parsed_args)}/confirm", document)


class PauseSubscription(SubscriptionCommand):
    """Pause a subscription: its messages wait.

    Example: zaqar-redis subscription pause ID --queue orders
    """

    paused = True

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.api.request("PATCH", self.path(parsed_args), {"paused": self.paused})


class ResumeSubscription(PauseSubscription):
    """Resume a paused subscription: its messages are delivered.

    Example: zaqar-redis subscription resume ID --queue orders
    """

    paused = False


class ReplaySubscription(SubscriptionCommand, ShowOne):
    """Repeat deliveries: given-up messages, or the history of a topic.

    Shows their number. Example:

        zaqar-redis subscription replay ID --topic news --history --limit 1000
    """

    arguments = takes(
        arg("--history", action="store_true", help="the topic's history, by the filter"),
        arg("--after", metavar="ID", help="with --history: only messages after this one"),
        arg(
            "--limit",
            type=bounded_int(1, 1_000_000),
            metavar="N",
            help="with --history: maximum of messages (all)",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        path = f"{self.path(parsed_args)}/replay"
        if not parsed_args.history and (parsed_args.after or parsed_args.limit):
            raise CommandFailed("--after and --limit need --history")
        if parsed_args.history:
            replayed = _replay_history(self.api, path, parsed_args.after, parsed_args.limit)
        else:
            replayed = self.api.request("POST", path)["replayed"]
        return ("replayed",), (replayed,)


def _replay_history(api: ApiClient, path: str, after: str | None, limit: int | None) -> int:
    """Returns how many deliveries are made again."""
    replayed = 0
    while limit is None or limit:
        document: dict[str, Any] = {"history": True}
        document |= {"after": after} if after else {}
        read = _HISTORY_STEP if limit is None else min(limit, _HISTORY_STEP)
        answer = api.request("POST", path, document | {"limit": read})
        replayed += answer["replayed"]
        after = answer.get("marker")
        if not after:
            break
        limit = limit and limit - read
    return replayed


class TestSubscription(SubscriptionCommand, ShowOne):
    """Send one signed test message to a subscriber, and show the answer.

    Exits with 1 if it was not delivered. Example:

        zaqar-redis subscription test ID --queue orders
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        result = self.api.request("POST", f"{self.path(parsed_args)}/test")
        if result["outcome"] != "delivered":
            self.exit_code = 1
        return tuple(result), tuple(result.values())
