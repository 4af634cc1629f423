# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis channel …``: what the server API does, on the command line."""

from __future__ import annotations

import argparse
import os
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from zaqar_redis.cli.base import (
    ApiCommand,
    Column,
    DestructiveCommand,
    Row,
    Table,
    arg,
    bounded_int,
    header_value,
    json_text,
    one_of,
    table,
    takes,
)
from zaqar_redis.cli.messages import parse_body
from zaqar_redis.cli.target import Needs
from zaqar_redis.realtime.node.control import ROUTES
from zaqar_redis.realtime.protocol import codes

#: Variable with the API key, so that process lists do not show it.
_KEY = "ZAQAR_REDIS_API_KEY"
#: Publications that are listed by default.
_DEFAULT_LIMIT = 20
#: The limit of one call for a queue, and far more than the history of most channels.
_MAX_LIMIT = 1000
_HISTORY = ("offset", "time", "user", Column("data", as_text=json_text))
_PRESENCE = (
    "client",
    "user",
    Column("conn_info", as_text=json_text),
    Column("chan_info", as_text=json_text),
)
_NODES = (
    "name",
    "version",
    Column("clients", field="num_clients"),
    Column("users", field="num_users"),
    Column("channels", field="num_channels"),
    Column("subscriptions", field="num_subs"),
    "uptime",
)


class ServerApiCommand(ApiCommand):
    """Base of the commands for channels."""

    needs = Needs.CHANNELS
    arguments = takes(
        lambda _, parser: parser.add_argument(
            "--api-key",
            type=header_value,
            default=os.environ.get(_KEY, ""),
            metavar="KEY",
            help=f"of the service at --url; in the variable {_KEY} it is not in process lists",
        ),
    )


class ChannelCommand(ServerApiCommand):
    needs = Needs.NAMESPACES
    arguments = takes(arg("channel", help="its name; queue:NAME is a queue, topic:NAME a topic"))


class ListChannel(ServerApiCommand, Lister):
    """List the channels with subscribers on all nodes, and their rates.

    Rates are of the last five to ten seconds, and null until a channel has had subscribers for a
    second.

    Example: zaqar-redis channel list --pattern 'chat:room*'
    """

    arguments = takes(arg("--pattern", metavar="GLOB", help="only matching channels (all)"))

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        found = self.api.channels(pattern=parsed_args.pattern)
        return ("channel", "subscribers", "published_per_second"), [
            (each["name"], each["subscribers"], _published(each)) for each in found
        ]


class ShowChannel(ChannelCommand, ShowOne):
    """Show the number of clients in a channel, its rate, and the position of its history.

    Fields are null for a channel without presence or history. The rate is of the last five to ten
    seconds; it is null until the channel has had subscribers for a second.

    Example: zaqar-redis channel info news
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        channel = parsed_args.channel
        replies = self.api.batch(
            {"presence_stats": {"channel": channel}},
            {"history": {"channel": channel, "limit": 0}},
            ignored_code=codes.NOT_AVAILABLE.code,
        )
        listed = self.api.channels(channel=channel)
        figures = listed[0] if listed else {"subscribers": 0, "published": None}
        present = replies[0].get("presence_stats", {})
        history = replies[1].get("history", {})
        columns = ("subscribers", "published_per_second", "clients", "users", "offset", "epoch")
        return ("channel", *columns), (
            channel,
            figures["subscribers"],
            _published(figures),
            present.get("num_clients"),
            present.get("num_users"),
            history.get("offset"),
            history.get("epoch"),
        )


class PublishToChannel(ChannelCommand, ShowOne):
    """Publish JSON, or else plain text, to a channel. Shows the publication's position.

    Example: zaqar-redis channel publish news '{"text": "hello"}'
    """

    arguments = takes(
        arg("data", type=parse_body, help="data to publish"),
        arg("--idempotency-key", metavar="KEY", help="a repeated call with it publishes nothing"),
        arg(
            "--skip-history",
            action="store_true",
            default=None,
            help="send it without adding it to the history",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        done = self.api.call(
            "publish",
            channel=parsed_args.channel,
            data=parsed_args.data,
            idempotency_key=parsed_args.idempotency_key,
            skip_history=parsed_args.skip_history,
        )
        return ("offset", "epoch"), (done.get("offset", 0), done.get("epoch", ""))


class ListChannelHistory(ChannelCommand, Lister):
    """List the publications in a channel's history, the oldest first.

    Example: zaqar-redis channel history news --since 41 --limit 10
    """

    arguments = takes(
        arg(
            "--limit",
            type=bounded_int(1, _MAX_LIMIT),
            default=_DEFAULT_LIMIT,
            metavar="N",
            help=f"this many at most ({_DEFAULT_LIMIT})",
        ),
        arg("--since", type=int, metavar="OFFSET", help="only after it; with --reverse before it"),
        arg("--reverse", action="store_true", default=None, help="newest first"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        since = None if parsed_args.since is None else {"offset": parsed_args.since}
        found = self.api.call(
            "history",
            channel=parsed_args.channel,
            limit=parsed_args.limit,
            since=since,
            reverse=parsed_args.reverse,
        )["publications"]
        publications = [
            _payloads(each, "data") | {"user": each.get("info", {}).get("user")} for each in found
        ]
        return table(_HISTORY, publications, parsed_args)


class ListChannelPresence(ChannelCommand, Lister):
    """List the clients that are in a channel.

    Example: zaqar-redis channel presence news
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        found = self.api.call("presence", channel=parsed_args.channel)["presence"]
        clients = [
            _payloads(who, "conn_info", "chan_info") | {"client": client}
            for client, who in sorted(found.items())
        ]
        return table(_PRESENCE, clients, parsed_args)


def _payloads(record: dict[str, Any], *names: str) -> dict[str, Any]:
    """Returns the record with binary payloads too: as objects with base64, as in the server API."""
    encoded = ((name, f"b64{name}") for name in names)
    return record | {name: {field: record[field]} for name, field in encoded if field in record}


class DisconnectUser(ServerApiCommand, DestructiveCommand):
    """Close the connections of a user, on all nodes.

    Example: zaqar-redis channel disconnect ann --yes
    """

    is_of_project = True
    arguments = takes(
        arg("user", help="the user's id"),
        arg("--client", help="only the connection of this client"),
        arg(
            "--code",
            type=bounded_int(3000, 4999),
            default=3503,
            help="disconnect code; clients reconnect unless it is 3500-3999 or 4500-4999 (3503)",
        ),
        arg("--reason", default="force disconnect", help="sent to the clients (force disconnect)"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Disconnect {parsed_args.user}")
        self.api.call(
            "disconnect",
            user=parsed_args.user,
            client=parsed_args.client,
            disconnect={"code": parsed_args.code, "reason": parsed_args.reason},
        )


class SendMessage(ServerApiCommand):
    """Send JSON, or else plain text, to connections of clients on all nodes.

    Nothing is stored: clients that are not connected never get it. Example:

        zaqar-redis channel send --user ann '{"text": "hello"}' --type greeting
    """

    #: the options say which bus the nodes have
    needs = Needs.NAMESPACES
    arguments = takes(
        arg("payload", type=parse_body, help="message to send"),
        arg("--type", default="message", help="the message's type (message)"),
        one_of(
            arg("--user", help="to the connections of this user"),
            arg("--role", help="to connections with this role in their token"),
            arg("--connection", metavar="CLIENT", help="to the connection of a client id"),
            arg("--topic", help="to subscribers of this topic"),
            arg("--broadcast", action="store_true", help="to the whole project"),
            required=True,
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        options = vars(parsed_args)
        route = next(name for name in ROUTES if options[name] not in (None, False))
        self.api.call(
            "send",
            route=route,
            target=None if route == "broadcast" else options[route],
            type=parsed_args.type,
            payload=parsed_args.payload,
        )


class ListChannelNode(ServerApiCommand, Lister):
    """List the nodes that serve channels: every worker is one.

    Example: zaqar-redis channel nodes
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        nodes = self.api.call("info")["nodes"]
        return table(_NODES, nodes, parsed_args)


def _published(figures: dict[str, Any]) -> float | None:
    """Returns a channel's publications a second; None: not known yet."""
    rate = figures["published"]
    return None if rate is None else round(rate, 1)
