# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis channel …``: what the server API does, on the command line."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from zaqar_redis.cli.arguments import between
from zaqar_redis.cli.messages import body_of
from zaqar_redis.cli.session import Destructive, Needs, Session, Talking, opened, structured
from zaqar_redis.realtime import codes

Row = tuple[Any, ...]

#: Where the key comes from that no command line shows.
_KEY = "ZAQAR_REDIS_API_KEY"
#: Publications that are shown when nobody says how many.
_SOME = 20
#: As many as one call may ask of a queue, and far more than most channels keep.
_MOST = 1000


class OfChannels(Talking):
    """Base of the commands for channels."""

    needs = Needs.CHANNELS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--api-key",
            default=os.environ.get(_KEY, ""),
            metavar="KEY",
            help=f"of the service at --url; that of the variable {_KEY} is shown to nobody",
        )
        return parser

    def opened(self, parsed: argparse.Namespace) -> contextlib.AbstractContextManager[Session]:
        return opened(parsed, self.target, self.needs)


class OfChannel(OfChannels):
    """Base of the commands for one channel."""

    needs = Needs.NAMESPACES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("channel", help="its name; queue:NAME is a queue")
        return parser


class ChannelList(OfChannels, Lister):
    """List the channels that somebody is subscribed to, on all nodes together.

    Example: zaqar-redis channel list --pattern 'chat:*'
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--pattern", metavar="GLOB", help="only those that match (all)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        with self.opened(parsed_args) as session:
            found = session.call("channels", pattern=parsed_args.pattern)["channels"]
        return ("channel", "clients"), [
            (channel, about["num_clients"]) for channel, about in found.items()
        ]


class ChannelInfo(OfChannel, ShowOne):
    """Show who is in a channel, and where its history ends; null: it keeps none of that.

    Example: zaqar-redis channel info news
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        channel = parsed_args.channel
        with self.opened(parsed_args) as session:
            replies = session.batch(
                {"channels": {"pattern": _literally(channel)}},
                {"presence_stats": {"channel": channel}},
                {"history": {"channel": channel, "limit": 0}},
                may_be_off=codes.NOT_AVAILABLE.code,
            )
        here = replies[0]["channels"]["channels"].get(channel, {"num_clients": 0})
        present = replies[1].get("presence_stats", {})
        kept = replies[2].get("history", {})
        return ("channel", "subscribers", "clients", "users", "offset", "epoch"), (
            channel,
            here["num_clients"],
            present.get("num_clients"),
            present.get("num_users"),
            kept.get("offset"),
            kept.get("epoch"),
        )


class ChannelPublish(OfChannel, ShowOne):
    """Publish to a channel: JSON, or else plain text. Shows the position that it got.

    Example: zaqar-redis channel publish news '{"text": "hello"}'
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("data", type=body_of, help="what to publish")
        parser.add_argument(
            "--idempotency-key", metavar="KEY", help="what went out under it is not sent again"
        )
        parser.add_argument(
            "--skip-history", action="store_true", default=None, help="send it, and keep it not"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.opened(parsed_args) as session:
            done = session.call(
                "publish",
                channel=parsed_args.channel,
                data=parsed_args.data,
                idempotency_key=parsed_args.idempotency_key,
                skip_history=parsed_args.skip_history,
            )
        return ("offset", "epoch"), (done.get("offset", 0), done.get("epoch", ""))


class ChannelHistory(OfChannel, Lister):
    """List the publications that a channel keeps, the oldest first.

    Example: zaqar-redis channel history news --since 41 --limit 10
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--limit",
            type=between(1, _MOST),
            default=_SOME,
            metavar="N",
            help=f"this many at most ({_SOME})",
        )
        parser.add_argument(
            "--since", type=int, metavar="OFFSET", help="those behind it; with --reverse before it"
        )
        parser.add_argument("--reverse", action="store_true", default=None, help="newest first")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        since = None if parsed_args.since is None else {"offset": parsed_args.since}
        with self.opened(parsed_args) as session:
            found = session.call(
                "history",
                channel=parsed_args.channel,
                limit=parsed_args.limit,
                since=since,
                reverse=parsed_args.reverse,
            )["publications"]
        as_is = structured(parsed_args)
        return ("offset", "time", "user", "data"), [
            (
                each["offset"],
                each.get("time"),
                each.get("info", {}).get("user"),
                _payload(each, "data", as_is),
            )
            for each in found
        ]


class ChannelPresence(OfChannel, Lister):
    """List the clients that are in a channel.

    Example: zaqar-redis channel presence news
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        with self.opened(parsed_args) as session:
            found = session.call("presence", channel=parsed_args.channel)["presence"]
        as_is = structured(parsed_args)
        return ("client", "user", "conn_info", "chan_info"), [
            (
                client,
                who["user"],
                _payload(who, "conn_info", as_is),
                _payload(who, "chan_info", as_is),
            )
            for client, who in sorted(found.items())
        ]


def _payload(of: dict[str, Any], name: str, as_is: bool) -> Any:
    """JSON; with what is none in base64, under the name that the server API has for it."""
    encoded = f"b64{name}"
    if encoded in of:
        given: Any = {encoded: of[encoded]}
    elif name in of:
        given = of[name]
    else:
        return None
    return given if as_is else json.dumps(given)


class ChannelDisconnect(OfChannels, Destructive):
    """Close the connections of a user, wherever they are.

    Example: zaqar-redis channel disconnect ann --yes
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("user", help="whose")
        parser.add_argument("--client", help="only the connection of this client")
        parser.add_argument(
            "--code",
            type=between(3000, 4999),
            default=3503,
            help="clients come back but for 3500 to 3999 and 4500 to 4999 (3503)",
        )
        parser.add_argument("--reason", default="force disconnect", help="what they are told")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Disconnect {parsed_args.user}")
        with self.opened(parsed_args) as session:
            session.call(
                "disconnect",
                user=parsed_args.user,
                client=parsed_args.client,
                disconnect={"code": parsed_args.code, "reason": parsed_args.reason},
            )


class ChannelNodes(OfChannels, Lister):
    """List the nodes that serve channels: every worker is one.

    Example: zaqar-redis channel nodes
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        with self.opened(parsed_args) as session:
            nodes = session.call("info")["nodes"]
        columns = ("name", "version", "clients", "users", "channels", "subscriptions", "uptime")
        return columns, [
            (
                node["name"],
                node["version"],
                node["num_clients"],
                node["num_users"],
                node["num_channels"],
                node["num_subs"],
                node["uptime"],
            )
            for node in nodes
        ]


def _literally(channel: str) -> str:
    """A glob that matches nothing else."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in channel)
