# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis message peek|move|copy`` and ``zaqar-redis queue redrive``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from cliff.show import ShowOne

from zaqar_redis.cli.api import PAGE_SIZE, CommandFailed, ServiceUnavailable, print_warning
from zaqar_redis.cli.base import (
    Column,
    Columns,
    Row,
    Table,
    arg,
    bounded_int,
    brief_progress,
    json_text,
    resource_name,
    single,
    table,
    takes,
)
from zaqar_redis.cli.messages import ATTRIBUTES, FIELDS, FittedListCommand
from zaqar_redis.cli.queues import QueueCommand
from zaqar_redis.rate_limiter import RateLimiter

_STATES = ("free", "claimed", "delayed", "expired")
_PEEKED: Columns = (
    *("id", "state", "age", "ttl"),
    Column("claims", field="claim_count"),
    *("claim", "claim_client_id", "until", "dead_letter_from", *FIELDS),
    ATTRIBUTES,
    Column("body", as_text=json_text),
)
_MOVED, _LEFT = "moved", "left"
_CONTAINS = "only messages with this text in the body, as JSON or with its escapes decoded"
_HELD = "those of the last request may be held for a minute"
#: Queues that a line names.
_LISTED_MAX = 10


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1e9:
        raise argparse.ArgumentTypeError("it must be a number of messages a second, above 0")
    return rate


class PeekMessage(FittedListCommand):
    """Look at messages in any state, and change nothing.

    Each has its state, its number of claims, the claim and the client that hold it, the end of its
    claim or delay, the queue that a dead letter came from, and why it was last given back. A
    narrow terminal shows the beginning of bodies, and not every column; -f json has all. Example:

        zaqar-redis message peek orders --state claimed --contains '"customer": 7' --limit 5
    """

    arguments = takes(
        arg("--state", choices=_STATES, help="only messages of this state (all)"),
        arg("--contains", metavar="TEXT", help=_CONTAINS),
        arg(
            "--limit",
            type=bounded_int(1, 1_000_000),
            default=PAGE_SIZE,
            metavar="N",
            help=f"this many at most ({PAGE_SIZE})",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        progress = self.until_end(brief_progress("searching", " pages"))
        found = self.api.list_linked(
            f"{self.path(parsed_args)}/peek",
            "messages",
            on_page=lambda: progress.update(1),
            state=parsed_args.state,
            contains=parsed_args.contains,
        )

        def shown() -> Iterator[dict[str, Any]]:
            for message in islice(found, parsed_args.limit):
                progress.close()  # it may be on the line that the message is written to
                yield message

        return table(_PEEKED, shown(), parsed_args)


class MovingCommand(QueueCommand, ShowOne):
    """Base of the commands that move messages to other queues, or copy them."""

    copies = False
    arguments = takes(
        arg("--contains", metavar="TEXT", help=_CONTAINS),
        arg("--limit", type=bounded_int(1, 10**9), metavar="N", help="only the N oldest (all)"),
        arg("--rate", type=_rate, metavar="N", help="maximum of messages a second (no limit)"),
    )

    def target_of(self, parsed: argparse.Namespace) -> str | None:
        """Returns the queue to move to; None: where each came from as a dead letter."""
        target: str = parsed.target
        return target

    def ids(self, parsed: argparse.Namespace, on_page: Callable[[], object]) -> Iterator[str]:
        """Yields what to move, oldest first; not what comes while the command runs."""
        stats = self.api.request("GET", f"{self.path(parsed)}/stats")["messages"]
        if "newest" not in stats:
            return
        # What is sent back may come again as a dead letter, behind this one.  Ids of one queue
        # are in the order of their messages.
        newest = stats["newest"]["href"].rpartition("/")[2]
        found = self.api.list_linked(
            f"{self.path(parsed)}/peek",
            "messages",
            on_page=on_page,
            state=None if self.copies else "free",
            contains=parsed.contains,
        )
        for message in found:
            if message["id"] > newest:
                return
            if self.target_of(parsed) or message.get("dead_letter_from"):
                yield message["id"]
            else:
                self.counts[_LEFT] += 1

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        self.counts = Counter({_MOVED: 0, _LEFT: 0})
        self.missing_origins: Counter[str] = Counter()
        try:
            self._move(parsed_args)
        except BaseException as error:  # Ctrl-C too: what is done is done, the rest can be later
            # A request without an answer may have moved some.
            is_refused = isinstance(error, CommandFailed) and not isinstance(
                error, ServiceUnavailable
            )
            if any(self.counts.values()) or not is_refused:
                print_warning(
                    f"{self._summary()} before it ended. Run the same command again to go on: none "
                    "is " + ("copied twice." if self.copies else f"moved twice; {_HELD}.")
                )
            raise
        return (self._done, _LEFT), (self.counts[_MOVED], self.counts[_LEFT])

    @property
    def _done(self) -> str:
        return "copied" if self.copies else _MOVED

    def _note_nothing(self, parsed: argparse.Namespace) -> None:
        with self.noticing("nothing to move"):  # its first message creates a dead-letter queue
            self.api.require(self.path(parsed))
            text = f"queue {parsed.name} has nothing to {'copy' if self.copies else 'move'}"
            self.print_notice(text, verbosity=1)

    def _summary(self) -> str:
        return f"{self.counts[_MOVED]} messages {self._done}, {self.counts[_LEFT]} left"

    def _move(self, parsed: argparse.Namespace) -> None:
        pace = RateLimiter(parsed.rate)
        document: dict[str, Any] = {"queue": self.target_of(parsed), "copy": self.copies}
        # A second's worth at most, so that a low rate is not bursty.
        size = min(PAGE_SIZE, max(1, int(parsed.rate or PAGE_SIZE)))
        most = parsed.limit or sys.maxsize
        doing = "copying" if self.copies else "moving"
        total = self._total(parsed)
        with self.progress(doing, " messages", total=total) as progress:
            ids = self.ids(parsed, lambda: progress.update(0))
            while chunk := list(islice(ids, min(size, most - self.counts[_MOVED]))):
                pace.wait()
                answer = self.api.request(
                    "POST", f"{self.path(parsed)}/move", document | {"ids": chunk}
                )
                pace.advance(len(chunk))
                self.counts[_MOVED] += len(answer["moved"])
                self.counts[_LEFT] += len(answer["left"])
                self.missing_origins.update(answer.get("missing_origins", {}))
                progress.update(len(answer["moved"]))
        if not any(self.counts.values()):
            self._note_nothing(parsed)

    def _total(self, parsed: argparse.Namespace) -> int | None:
        """Returns how many there are to move; None: that is not known before."""
        if parsed.contains:
            return None
        counts = self.api.request("GET", f"{self.path(parsed)}/stats")["messages"]
        total: int = counts["total" if self.copies else "free"]
        return min(total, parsed.limit or total)


class MoveMessage(MovingCommand):
    """Move messages to the end of another queue, which must exist.

    Moves the messages of the ids; without ids all free ones, oldest first; never claimed ones. Each
    is moved once, and none is lost, even if the command is interrupted; run it again to continue.
    The TTL of a message starts again. Examples:

        zaqar-redis message move orders orders-later --limit 100 --rate 50
        zaqar-redis message move orders orders-odd 3f0c8d53-5a0f-4b0e-0000-000000000007
    """

    arguments = takes(
        arg("target", type=resource_name, help="the other queue"),
        arg("message", nargs="*", help="ids (all free messages)"),
    )

    def ids(self, parsed: argparse.Namespace, on_page: Callable[[], object]) -> Iterator[str]:
        if parsed.message:
            yield from parsed.message
        else:
            yield from super().ids(parsed, on_page)

    def _move(self, parsed: argparse.Namespace) -> None:
        self.api.require(self.path(parsed))
        super()._move(parsed)


class CopyMessage(MoveMessage):
    """Copy messages to the end of another queue, which must exist.

    Copies the messages of the ids; without ids all, claimed and delayed ones too, oldest first.
    Each is copied to a queue once within a day. Example:

        zaqar-redis message copy orders orders-test --limit 10
    """

    copies = True


class RedriveQueue(MovingCommand):
    """Send dead letters back to the queues that they came from, or to another one.

    Claimed messages, and messages that are no dead letters, stay. Dead letters of queues that no
    longer exist stay, too: the command continues with the others, lists these queues, and exits
    with 5; --target takes all. None is lost or sent twice, even if the command is interrupted; run
    it again to continue. Dead letters that arrive meanwhile stay for the next run. Example:

        zaqar-redis queue redrive orders-dead --rate 100
    """

    arguments = takes(
        arg("--target", type=resource_name, metavar="QUEUE", help="target (their origins)"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        names, values = super().take_action(parsed_args)
        found = dict(self.missing_origins.most_common())
        if found:
            self.warn_incomplete(
                f"left dead letters of queues that do not exist: {_listed(found)}. Create these "
                "queues and run the command again, or send all to another queue by --target."
            )
        as_text = Column("missing_origins", as_text=_listed)
        more, value = single((as_text,), {"missing_origins": found}, parsed_args)
        return (*names, *more), (*values, *value)


def _listed(numbers: Mapping[str, int]) -> str:
    """Returns queues with their numbers of messages, the first ones by name."""
    shown = [f"{queue} ({number})" for queue, number in islice(numbers.items(), _LISTED_MAX)]
    more = len(numbers) - len(shown)
    return ", ".join(shown) + (f" and {more} more queues" if more else "")
