# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis claim …``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote

from cliff.show import ShowOne

from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import (
    Column,
    Columns,
    Row,
    Table,
    arg,
    bounded_int,
    given,
    single,
    table,
    takes,
)
from zaqar_redis.cli.messages import COLUMNS, FittedListCommand
from zaqar_redis.cli.queues import QueueCommand

_LEASE = takes(
    arg("--ttl", type=int, metavar="SECONDS", help="lifetime of the claim"),
    arg("--grace", type=int, metavar="SECONDS", help="minimum that messages outlive the claim"),
)
_IDS = arg(
    "--id", dest="ids", action="append", metavar="MESSAGE", help="only this one; may be repeated"
)


class ClaimCommand(QueueCommand):
    arguments = takes(arg("claim", help="its id"))

    def claim_path(self, parsed: argparse.Namespace) -> str:
        return f"{self.path(parsed)}/claims/{quote(parsed.claim, safe='')}"

    def report_left(self, answer: Any) -> None:
        """Raises CommandFailed when the claim did not hold some of the messages that were named."""
        if answer and answer["left"]:
            raise CommandFailed(
                f"the claim does not hold {', '.join(answer['left'])}: deleted, released, or their "
                "lease has ended"
            )


class CreateClaim(FittedListCommand):
    """Claim messages, so that no other client gets them meanwhile. Shows each with its claim.

    Example: zaqar-redis claim create orders --limit 5 --ttl 300
    """

    arguments = takes(
        arg("--limit", type=int, help="maximum of messages (10)"),
        *_LEASE,
        arg("--wait", type=int, metavar="SECONDS", help="wait for new messages"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        answer = self.api.request(
            "POST",
            f"{self.path(parsed_args)}/claims",
            given(parsed_args, "ttl", "grace"),
            limit=parsed_args.limit,
            wait=parsed_args.wait,
            with_attributes=True,
            detailed=True,
        )
        if not answer and self.app.options.verbose_level:
            with self.noticing("nothing to claim"):
                self.api.require(self.path(parsed_args))
        claimed = [
            message | {"claim": message["href"].rpartition("claim_id=")[2]}
            for message in (answer["messages"] if answer else ())
        ]
        return table(("claim", *COLUMNS), claimed, parsed_args)


class ListClaim(FittedListCommand):
    """List the live claims of a queue that hold messages, by their ends.

    Each has the Client-ID of the request that created it. A narrow terminal does not show every
    column; -f json has all.

    Example: zaqar-redis claim list orders
    """

    shortened: Mapping[str, int] = {}
    optional = ("age", "ttl", "messages", "ends_in")
    arguments = takes(
        arg("--limit", type=bounded_int(1, 1_000_000), metavar="N", help="maximum of claims (all)"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        found = self.api.list_linked(f"{self.path(parsed_args)}/claims", "claims")
        claims = (
            each | {"ends_in": each["ttl"] - each["age"]}
            for each in islice(found, parsed_args.limit)
        )
        columns = ("id", "messages", "ttl", "age", "ends_in", "client_id")
        return table(columns, claims, parsed_args)


class ShowClaim(ClaimCommand, ShowOne):
    """Show a live claim, and the messages that it still holds; -f json shows all of each.

    Example: zaqar-redis claim show orders 51db6f78c50811e79e0f0242ac110002
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        found = self.api.request("GET", self.claim_path(parsed_args), with_attributes=True)
        shown = found | {"messages": [message["id"] for message in found["messages"]]}
        columns: Columns = ("ttl", "age", Column("messages", as_text="\n".join))
        if parsed_args.formatter in ("json", "yaml"):
            columns = (*columns, "held")
        return single(columns, shown | {"held": found["messages"]}, parsed_args)


class RenewClaim(ClaimCommand):
    """Renew a live claim: its TTL counts from now. With --id only that of some messages.

    Example: zaqar-redis claim renew orders 51db6f78c50811e79e0f0242ac110002 --ttl 600
    """

    arguments = takes(*_LEASE, _IDS)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        document = given(parsed_args, "ttl", "grace", "ids")
        answer = self.api.request("PATCH", self.claim_path(parsed_args), document)
        self.report_left(answer)


class ReleaseClaim(ClaimCommand):
    """Release a claim, or with --id some of its messages.

    They can be claimed again after the delay: that of --delay, else that of the queue's
    _redelivery_delay, else at once.

    Example: zaqar-redis claim release orders 51db6f78c50811e79e0f0242ac110002 --delay 30
    """

    arguments = takes(
        _IDS,
        arg("--delay", type=int, metavar="SECONDS", help="until they can be claimed again"),
        arg("--reason", metavar="TEXT", help="shown with them and their dead letters"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        document = given(parsed_args, "ids", "delay", "reason")
        if document:
            path = f"{self.claim_path(parsed_args)}/release"
            self.report_left(self.api.request("POST", path, document))
        else:
            self.api.request("DELETE", self.claim_path(parsed_args))
