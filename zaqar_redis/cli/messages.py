# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis message …`` and ``zaqar-redis claim …``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from cliff.lister import Lister

from zaqar_redis.cli.queues import path_of
from zaqar_redis.cli.session import Talking

Row = tuple[Any, ...]
_COLUMNS = ("id", "age", "ttl", "body")


def _body(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # plain text is a body as well


def _rows(messages: list[dict[str, Any]]) -> list[Row]:
    return [
        (message["id"], message["age"], message["ttl"], json.dumps(message["body"]))
        for message in messages
    ]


class MessagePost(Talking, Lister):
    """Post messages: each body is JSON, or else plain text. Shows their ids.

    Example: zaqar-redis message post orders '{"number": 7}' hello --ttl 600
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("queue", help="its name")
        parser.add_argument("body", nargs="+", type=_body, help="of a message")
        parser.add_argument("--ttl", type=int, metavar="SECONDS", help="their life")
        parser.add_argument("--delay", type=int, metavar="SECONDS", help="until they count")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        fields = {"ttl": parsed_args.ttl, "delay": parsed_args.delay}
        given = {name: value for name, value in fields.items() if value is not None}
        document = {"messages": [{"body": body, **given} for body in parsed_args.body]}
        with self.opened(parsed_args) as session:
            posted = session.ask("POST", f"{path_of(parsed_args.queue)}/messages", document)
        return ("id",), [(href.rpartition("/")[2],) for href in posted["resources"]]


class MessageList(Talking, Lister):
    """List the messages of a queue, oldest first.

    Example: zaqar-redis message list orders --claimed -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("queue", help="its name")
        parser.add_argument("--claimed", action="store_true", help="claimed ones too")
        parser.add_argument("--delayed", action="store_true", help="delayed ones too")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        with self.opened(parsed_args) as session:
            found = session.pages(
                f"{path_of(parsed_args.queue)}/messages",
                "messages",
                echo=True,
                include_claimed=parsed_args.claimed,
                include_delayed=parsed_args.delayed,
            )
            return _COLUMNS, _rows(list(found))


class ClaimCreate(Talking, Lister):
    """Claim messages, so that nobody else gets them for a while. Shows the claim with each.

    Example: zaqar-redis claim create orders --limit 5 --ttl 300
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("queue", help="its name")
        parser.add_argument("--limit", type=int, help="messages at most (10)")
        parser.add_argument("--ttl", type=int, metavar="SECONDS", help="life of the claim")
        parser.add_argument("--grace", type=int, metavar="SECONDS", help="beyond it, for messages")
        parser.add_argument("--wait", type=int, metavar="SECONDS", help="for messages to come")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        fields = {"ttl": parsed_args.ttl, "grace": parsed_args.grace}
        lease = {name: value for name, value in fields.items() if value is not None}
        with self.opened(parsed_args) as session:
            answer = session.ask(
                "POST",
                f"{path_of(parsed_args.queue)}/claims",
                lease,
                limit=parsed_args.limit,
                wait=parsed_args.wait,
            )
        messages = answer["messages"] if answer else []
        claims = [message["href"].rpartition("claim_id=")[2] for message in messages]
        rows = zip(claims, _rows(messages), strict=True)
        return ("claim", *_COLUMNS), [(claim, *row) for claim, row in rows]


class ClaimRelease(Talking):
    """Give a claim up: its messages can be claimed again at once.

    Example: zaqar-redis claim release orders 51db6f78c50811e79e0f0242ac110002
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("queue", help="its name")
        parser.add_argument("claim", help="its id")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.opened(parsed_args) as session:
            session.ask("DELETE", f"{path_of(parsed_args.queue)}/claims/{parsed_args.claim}")
