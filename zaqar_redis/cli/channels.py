# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis channel …``: what the server API does, on the command line."""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from zaqar_redis.cli.api import ApiClient, Needs, open_api
from zaqar_redis.cli.base import (
    ApiCommand,
    Column,
    DestructiveCommand,
    Row,
    Table,
    bounded_int,
    header_value,
    json_text,
    table,
)
from zaqar_redis.cli.messages import parse_body
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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--api-key",
            type=header_value,
            default=os.environ.get(_KEY, ""),
            metavar="KEY",
            help=f"key of the service at --url; the variable {_KEY} hides it from process lists",
        )
        return parser

    def open_api(self, parsed: argparse.Namespace) -> contextlib.AbstractContextManager[ApiClient]:
        return open_api(parsed, self.target, self.needs)


class ChannelCommand(ServerApiCommand):
    """Base of the commands for one channel."""

    needs = Needs.NAMESPACES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("channel", help="its name; queue:NAME is a queue, topic:NAME a topic")
        return parser


class ListChannel(ServerApiCommand, Lister):
    """List the channels with subscribers on all nodes, and their rates.

    Rates are of the last five to ten seconds, and null until a channel has had subscribers for a
    second.

    Example: zaqar-redis channel list --pattern 'chat:room*'
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--pattern", metavar="GLOB", help="only matching channels (all)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        with self.open_api(parsed_args) as api:
            found = api.channels(pattern=parsed_args.pattern)
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
        with self.open_api(parsed_args) as api:
            replies = api.batch(
                {"presence_stats": {"channel": channel}},
                {"history": {"channel": channel, "limit": 0}},
                ignored_code=codes.NOT_AVAILABLE.code,
            )
            listed = api.channels(channel=channel)
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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("data", type=parse_body, help="data to publish")
        parser.add_argument(
            "--idempotency-key", metavar="KEY", help="a repeated call with it publishes nothing"
        )
        parser.add_argument(
            "--skip-history",
            action="store_true",
            default=None,
            help="send it without adding it to the history",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            done = api.call(
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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--limit",
            type=bounded_int(1, _MAX_LIMIT),
            default=_DEFAULT_LIMIT,
            metavar="N",
            help=f"maximum of publications ({_DEFAULT_LIMIT})",
        )
        parser.add_argument(
            "--since", type=int, metavar="OFFSET", help="only after it; with --reverse before it"
        )
        parser.add_argument("--reverse", action="store_true", default=None, help="newest first")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        since = None if parsed_args.since is None else {"offset": parsed_args.since}
        with self.open_api(parsed_args) as api:
            found = api.call(
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
        with self.open_api(parsed_args) as api:
            found = api.call("presence", channel=parsed_args.channel)["presence"]
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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("user", help="the user's id")
        parser.add_argument("--client", help="only the connection of this client")
        parser.add_argument(
            "--code",
            type=bounded_int(3000, 4999),
            default=3503,
            help="disconnect code; clients reconnect unless it is 3500-3999 or 4500-4999 (3503)",
        )
        parser.add_argument(
            "--reason", default="force disconnect", help="sent to the clients (force disconnect)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Disconnect {parsed_args.user}")
        with self.open_api(parsed_args) as api:
            api.call(
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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("payload", type=parse_body, help="message to send")
        parser.add_argument("--type", default="message", help="the message's type (message)")
        to = parser.add_mutually_exclusive_group(required=True)
        to.add_argument("--user", help="to the connections of this user")
        to.add_argument("--role", help="to connections with this role in their token")
        to.add_argument("--connection", metavar="CLIENT", help="to the connection of a client id")
        to.add_argument("--topic", help="to subscribers of this topic")
        to.add_argument("--broadcast", action="store_true", help="to the whole project")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        options = vars(parsed_args)
        route = next(name for name in ROUTES if options[name] not in (None, False))
        with self.open_api(parsed_args) as api:
            api.call(
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
        with self.open_api(parsed_args) as api:
            nodes = api.call("info")["nodes"]
        return table(_NODES, nodes, parsed_args)


def _published(figures: dict[str, Any]) -> float | None:
    """Returns a channel's publications a second; None: not known yet."""
    rate = figures["published"]
    return None if rate is None else round(rate, 1)
