# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis message …`` and ``zaqar-redis claim …``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from cliff.lister import Lister

from zaqar_redis.cli.arguments import between
from zaqar_redis.cli.queues import OfQueue, path_of
from zaqar_redis.cli.session import PAGE, Away, Session, structured

Message = dict[str, Any]
Row = tuple[Any, ...]
_COLUMNS = ("id", "age", "ttl", "body")


def body_of(text: str) -> Any:
    """For an argument that is JSON, or else plain text."""
    try:
        return json.loads(text)
    except ValueError:
        return text  # plain text is a body as well


def _rows(messages: list[dict[str, Any]], parsed: argparse.Namespace) -> list[Row]:
    as_is = structured(parsed)
    return [
        (
            message["id"],
            message["age"],
            message["ttl"],
            message["body"] if as_is else json.dumps(message["body"]),
        )
        for message in messages
    ]


class MessagePost(OfQueue, Lister):
    """Post messages: each body is JSON, or else plain text. Shows their ids.

    Example: zaqar-redis message post orders '{"number": 7}' hello --ttl 600
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("body", nargs="+", type=body_of, help="of a message")
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


class MessageList(OfQueue, Lister):
    """List the messages of a queue, oldest first.

    Example: zaqar-redis message list orders --claimed --limit 100 -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--claimed", action="store_true", help="claimed ones too")
        parser.add_argument("--delayed", action="store_true", help="delayed ones too")
        parser.add_argument(
            "--limit", type=between(1, 1_000_000), metavar="N", help="this many at most (all)"
        )
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
            return _COLUMNS, _rows(list(islice(found, parsed_args.limit)), parsed_args)


class MessageTail(OfQueue):
    """Follow a queue: show its last messages, then each new one as it comes.

    One line each, "id  body", until interrupted; the queue need not be there yet. A
    message that is claimed or delayed when later ones are shown is passed over, unless
    --claimed or --delayed is given. To find the last ones the queue is read from its
    start: with a long one, --lines 0 begins at once. Example:

        zaqar-redis message tail orders --lines 20 --claimed
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        start = parser.add_mutually_exclusive_group()
        start.add_argument(
            "--lines", type=between(0, 100_000), default=10, metavar="N", help="to begin with (10)"
        )
        start.add_argument("--from-start", action="store_true", help="begin with all there are")
        parser.add_argument("--claimed", action="store_true", help="claimed ones too")
        parser.add_argument("--delayed", action="store_true", help="delayed ones too")
        parser.add_argument(
            "--json", action="store_true", help="each as an object with all that is known"
        )
        parser.add_argument(
            "--wait",
            type=between(1, 30),
            default=30,
            metavar="SECONDS",
            help="for news in one request (30); a service with a smaller max_wait wants less",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.opened(parsed_args) as session:
            follower = _Follower(session, parsed_args)
            # From the start, all there are come as if they were new.
            last = [] if parsed_args.from_start else follower.last(parsed_args.lines)
            for message in chain(last, follower.coming()):
                line = f"{message['id']}  {json.dumps(message['body'])}"
                print(json.dumps(message) if parsed_args.json else line, flush=True)


class _Follower:
    """Reads a queue on and on, and waits for a service that has answered once."""

    def __init__(self, session: Session, parsed: argparse.Namespace) -> None:
        self._session = session
        self._path = path_of(parsed.queue)
        self._wait = parsed.wait
        self._shown = {
            "echo": True,
            "include_claimed": parsed.claimed,
            "include_delayed": parsed.delayed,
        }
        self._marker: str | None = None
        self._answered = False

    def last(self, most: int) -> deque[Message]:
        """The last of those that are there; what comes then begins behind them."""
        if most == 0:
            self._marker = self._newest()
            return deque()
        # Listings only go forward: no request begins so many before the end.
        return deque(chain.from_iterable(iter(self._page, [])), most)

    def coming(self) -> Iterator[Message]:
        """Those behind the ones that were read, for ever."""
        while True:
            asked = time.monotonic()
            page = self._page(wait=self._wait)
            yield from page
            if not page:
                self._look_for_a_new_queue()
                # Empty at once: a service that stops, or one that cannot wait.
                self._session.pause(max(0.0, asked + 1 - time.monotonic()))

    def _page(self, **query: object) -> list[Message]:
        query |= {"marker": self._marker, "limit": PAGE, **self._shown}
        page: list[Message] = self._ask("/messages", **query)["messages"]
        if page:
            self._marker = page[-1]["id"]
        return page

    def _newest(self) -> str | None:
        """Id of the newest message, whoever may see it."""
        stats = self._ask("/stats")["messages"]
        return stats["newest"]["href"].rpartition("/")[2] if "newest" in stats else None

    def _look_for_a_new_queue(self) -> None:
        """A marker of a queue that was deleted would show nothing of the next one."""
        newest = self._newest()
        if self._marker and newest and _life(newest) != _life(self._marker):
            _tell("the queue was deleted and made anew; from its start:")
            self._marker = None

    def _ask(self, path: str, **query: object) -> Any:
        told = False
        while True:
            try:
                answer = self._session.ask("GET", self._path + path, **query)
            except Away as away:
                if not self._answered:
                    raise
                if not told:
                    _tell(f"trying again: {away}")
                told = True
                self._session.pause(away.seconds)
            else:
                self._answered = True
                return answer


def _life(message: str) -> str:
    """What the ids of one life of a queue have in common, and those of no other.

    See "Ids are positions" in the API: no request tells whether a marker is of this life.
    """
    return message[:18]


def _tell(text: str) -> None:
    print(f"zaqar-redis: {text}", file=sys.stderr, flush=True)


class ClaimCreate(OfQueue, Lister):
    """Claim messages, so that nobody else gets them for a while. Shows the claim with each.

    Example: zaqar-redis claim create orders --limit 5 --ttl 300
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
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
        rows = zip(claims, _rows(messages, parsed_args), strict=True)
        return ("claim", *_COLUMNS), [(claim, *row) for claim, row in rows]


class ClaimRelease(OfQueue):
    """Give a claim up: its messages can be claimed again at once.

    Example: zaqar-redis claim release orders 51db6f78c50811e79e0f0242ac110002
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("claim", help="its id")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.opened(parsed_args) as session:
            session.ask("DELETE", f"{path_of(parsed_args.queue)}/claims/{parsed_args.claim}")
