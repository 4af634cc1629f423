# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis message …``, but for what moves messages (`moving`)."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cliff.lister import Lister
from cliff.show import ShowOne

from zaqar_redis import message_fields
from zaqar_redis.cli.api import (
    PAGE_SIZE,
    ApiClient,
    CommandFailed,
    ServiceUnavailable,
    print_warning,
)
from zaqar_redis.cli.base import (
    Column,
    Columns,
    DestructiveCommand,
    Row,
    Table,
    arg,
    bounded_int,
    brief_progress,
    given,
    json_text,
    one_of,
    single,
    table,
    takes,
)
from zaqar_redis.cli.fitting import fit
from zaqar_redis.cli.paged_lists import PagedListCommand
from zaqar_redis.cli.queues import QueueCommand

Message = dict[str, Any]
ATTRIBUTES = Column("attributes", as_text=json_text)
#: Fields that only some messages have.
FIELDS = tuple(message_fields.FIELDS.values())
_BODY = Column("body", as_text=json_text)
COLUMNS: Columns = ("id", "age", "ttl", *FIELDS, ATTRIBUTES, _BODY)


def parse_body(text: str) -> Any:
    """Parses an argument that is JSON, or else plain text."""
    try:
        return json.loads(text)
    except ValueError:
        return text  # plain text is a body as well


def parse_assignment(text: str, form: str = "NAME=VALUE") -> tuple[str, Any]:
    """Parses an argument of this *form*: a name, and what is JSON or else plain text."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} must be {form}")
    return name, parse_body(value)


class FittedListCommand(QueueCommand, PagedListCommand):
    """Base of the commands that list messages or claims of a queue, as wide as the terminal."""

    #: What gives way on a narrow terminal: texts, with how much is left of them, and columns.
    shortened: Mapping[str, int] = {
        "dead_letter_from": 16,
        "claim": 9,
        "dedup_id": 9,
        "group": 9,
        "content_type": 12,
        "reason": 16,
        "body": 16,
    }
    optional: Sequence[str] = (
        "claim_client_id",
        *("dedup_id", "ttl", "claims", "age", "until", "content_type"),
    )

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._left_out: set[str] = set()
        return super().run(parsed_args)

    def fitted(self, shown: Table, parsed: argparse.Namespace) -> Table:
        fits, left_out = fit(shown, parsed, self.shortened, self.optional)
        if not self._left_out.issuperset(left_out):
            text = f"the terminal is too narrow for {', '.join(left_out)}; -f json shows all"
            self.print_notice(text, verbosity=1)
            self._left_out.update(left_out)
        return fits


class PostMessage(QueueCommand, Lister):
    """Post messages: each body is JSON, or else plain text. Shows their ids.

    A file is posted as it is: `message show --raw` gives it back. Examples:

        zaqar-redis message post orders '{"number": 7}' hello --ttl 600
        zaqar-redis message post photos cat.jpg --file --content-type image/jpeg
    """

    arguments = takes(
        arg("body", nargs="+", help="body of a message"),
        arg(
            "--file",
            action="store_true",
            help="each body is the name of a file, whose bytes are posted; - is standard input",
        ),
        arg("--content-type", metavar="TYPE", help="of --file (application/octet-stream)"),
        arg("--ttl", type=int, metavar="SECONDS", help="time until they expire"),
        arg("--delay", type=int, metavar="SECONDS", help="time until visible"),
        arg(
            "--deliver-at",
            metavar="TIME",
            help="time at which they get visible and --ttl begins, e.g. 2030-01-31T12:00Z",
        ),
        arg(
            "--attribute",
            action="append",
            type=parse_assignment,
            metavar="NAME=VALUE",
            help='of each message: JSON (a number, a text, or {"binary": BASE64}), or else a text; '
            "may be repeated",
        ),
        arg("--group", metavar="GROUP", help="group that they are in"),
        arg("--priority", type=int, metavar="NUMBER", help="0 to 31; the highest comes first"),
        arg("--dedup-id", metavar="ID", help="what comes with it again is posted once"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        fields = given(parsed_args, "ttl", "delay", "deliver_at", "group", "priority", "dedup_id")
        if parsed_args.attribute:
            fields["attributes"] = dict(parsed_args.attribute)
        bodies: list[Message] = [{"body": parse_body(body)} for body in parsed_args.body]
        if parsed_args.file:
            kind = parsed_args.content_type or "application/octet-stream"
            bodies = [message_fields.in_document(_content(name), kind) for name in parsed_args.body]
        elif parsed_args.content_type is not None:
            raise CommandFailed("--content-type is that of files: add --file")
        document = {"messages": [{**body, **fields} for body in bodies]}
        if parsed_args.dedup_id is not None and len(bodies) > 1:
            raise CommandFailed("--dedup-id is of one message: post each with its own")
        posted = self.api.request("POST", f"{self.path(parsed_args)}/messages", document)
        if duplicates := posted.get("duplicates"):
            self.print_notice(f"{len(duplicates)} had been posted before", verbosity=1)
        return ("id",), [(href.rpartition("/")[2],) for href in posted["resources"]]


def _content(file: str) -> bytes:
    """Raises CommandFailed."""
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from error


class ListMessagesCommand(FittedListCommand):
    """Base of the commands that list messages as their readers see them."""

    arguments = takes(
        arg("--delayed", action="store_true", help="delayed ones too"),
        arg(
            "--limit", type=bounded_int(1, 1_000_000), metavar="N", help="maximum of messages (all)"
        ),
    )

    def listed_messages(self, parsed: argparse.Namespace, **query: object) -> Table:
        found = self.api.list_items(
            f"{self.path(parsed)}/messages",
            "messages",
            include_delayed=parsed.delayed,
            with_attributes=True,
            detailed=True,
            **query,
        )
        return table(COLUMNS, islice(found, parsed.limit), parsed)


class ListMessage(ListMessagesCommand):
    """List the messages of a queue, oldest first.

    Example: zaqar-redis message list orders --claimed --limit 100 -f json
    """

    arguments = takes(arg("--claimed", action="store_true", help="claimed ones too"))

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        return self.listed_messages(parsed_args, echo=True, include_claimed=parsed_args.claimed)


class ShowMessage(QueueCommand, ShowOne):
    """Show a message, claimed, delayed or not.

    Example: zaqar-redis message show orders 3f0c8d53-5a0f-4b0e-0000-000000000007
    """

    arguments = takes(
        arg("message", help="its id"),
        arg(
            "--raw", action="store_true", help="write its body alone, to the byte as it was posted"
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        path = f"{self.path(parsed_args)}/messages/{quote(parsed_args.message, safe='')}"
        if parsed_args.raw:
            sys.stdout.buffer.write(self.api.body(path))
            return (), ()
        message = self.api.request("GET", path, with_attributes=True, detailed=True)
        claim = message["href"].partition("?claim_id=")[2] or None
        optional = (name for name in (*FIELDS, "checksum") if name in message)
        shown: Columns = ("id", "age", "ttl", ATTRIBUTES, _BODY, "claim", *optional)
        return single(shown, message | {"claim": claim}, parsed_args)

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        return 0 if parsed_args.raw else super().produce_output(parsed_args, column_names, data)


class DeleteMessage(QueueCommand, DestructiveCommand):
    """Delete messages by their ids; a claimed one only with its claim.

    If one is refused, the command continues with the others, and then fails. Example:

        zaqar-redis message delete orders 3f0c8d53-5a0f-4b0e-0000-000000000007 --yes
    """

    arguments = takes(
        arg("message", nargs="+", help="its id"),
        arg("--claim", help="the claim that holds them"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        number = len(parsed_args.message)
        self.confirm(parsed_args, f"Delete {number} of the messages of {parsed_args.name}")
        refused = []
        self.api.require(self.path(parsed_args))
        for message in parsed_args.message:
            path = f"{self.path(parsed_args)}/messages/{quote(message, safe='')}"
            try:
                self.api.request("DELETE", path, claim_id=parsed_args.claim)
            except ServiceUnavailable:
                raise
            except CommandFailed as error:
                refused.append(f"{message}: {error}")
        if refused:
            raise CommandFailed("\n".join(refused))


class TailMessage(QueueCommand):
    """Follow a queue: show its last messages, then each new one as it comes.

    Prints a line "id  body" for each, until interrupted; the queue need not exist yet. A
    message that is claimed or delayed when later ones are shown is skipped, unless --claimed
    or --delayed is given. To find the last messages the command reads the queue from its
    start; for a long queue, --lines 0 avoids this. Example:

        zaqar-redis message tail orders --lines 20 --claimed
    """

    arguments = takes(
        one_of(
            arg(
                "--lines",
                type=bounded_int(0, 100_000),
                default=10,
                metavar="N",
                help="existing messages to show first (10)",
            ),
            arg("--from-start", action="store_true", help="show all existing messages first"),
        ),
        arg("--claimed", action="store_true", help="claimed ones too"),
        arg("--delayed", action="store_true", help="delayed ones too"),
        arg("--json", action="store_true", help="each as an object with all its fields"),
        arg(
            "--wait",
            type=bounded_int(1, 30),
            default=30,
            metavar="SECONDS",
            help="longest wait of one request (30); at most the service's max_wait",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        follower = _Follower(self.api, self.path(parsed_args), parsed_args)
        # From the start, existing messages are read like new ones.
        last_messages = [] if parsed_args.from_start else follower.last_messages(parsed_args.lines)
        for message in chain(last_messages, follower.new_messages()):
            line = f"{message['id']}  {json_text(message['body'])}"
            print(json.dumps(message) if parsed_args.json else line, flush=True)


class _Follower:
    """Reader of a queue that waits for new messages, and retries once it had an answer."""

    def __init__(self, api: ApiClient, path: str, parsed: argparse.Namespace) -> None:
        self._api = api
        self._path = path
        self._wait = parsed.wait
        self._filters = {
            "echo": True,
            "include_claimed": parsed.claimed,
            "include_delayed": parsed.delayed,
        }
        self._marker: str | None = None
        self._answered = False

    def last_messages(self, most: int) -> deque[Message]:
        """Returns the last existing messages; `new_messages` begins behind them."""
        if most == 0:
            self._marker = self._newest()
            return deque()
        # Listings only go forward: no request starts a number of messages before the end.
        last = deque[Message](maxlen=most)
        with brief_progress("reading", " messages") as progress:
            while page := self._page():
                last += page
                progress.update(len(page))
        return last

    def new_messages(self) -> Iterator[Message]:
        """Yields messages behind the ones that were read, without end."""
        while True:
            started = time.monotonic()
            page = self._page(wait=self._wait)
            yield from page
            if not page:
                self._restart_if_recreated()
                # An empty page at once is from a service that stops, or that cannot wait.
                self._api.sleep(max(0.0, started + 1 - time.monotonic()))

    def _page(self, **query: object) -> list[Message]:
        query |= {
            "marker": self._marker,
            "limit": PAGE_SIZE,
            "with_attributes": True,
            **self._filters,
        }
        page: list[Message] = self._get("/messages", **query)["messages"]
        if page:
            self._marker = page[-1]["id"]
        return page

    def _newest(self) -> str | None:
        """Returns the id of the newest message, claimed or delayed ones included."""
        stats = self._get("/stats")["messages"]
        return stats["newest"]["href"].rpartition("/")[2] if "newest" in stats else None

    def _restart_if_recreated(self) -> None:
        """Drops the marker when it is of an earlier epoch: it would hide all messages."""
        newest = self._newest()
        if self._marker and newest and _epoch_prefix(newest) != _epoch_prefix(self._marker):
            print_warning("the queue was deleted and created again; from its start:")
            self._marker = None

    def _get(self, path: str, **query: object) -> Any:
        notified = False
        while True:
            try:
                answer = self._api.request("GET", self._path + path, **query)
            except ServiceUnavailable as error:
                if not self._answered:
                    raise
                if not notified:
                    print_warning(f"trying again: {error}")
                notified = True
                self._api.sleep(error.seconds)
            else:
                self._answered = True
                return answer


def _epoch_prefix(message: str) -> str:
    """Returns the prefix that only the message ids of one epoch of a queue share.

    See "Ids are positions" in the API: no request checks the epoch of a marker.
    """
    return message[:18]
