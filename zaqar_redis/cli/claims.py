# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis claim …``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import islice
from urllib.parse import quote

from cliff.show import ShowOne

from zaqar_redis.cli.base import Column, Row, Table, bounded_int, table
from zaqar_redis.cli.messages import COLUMNS, FittedListCommand
from zaqar_redis.cli.queues import QueueCommand


class ClaimCommand(QueueCommand):
    """Base of the commands for one claim."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("claim", help="its id")
        return parser

    def claim_path(self, parsed: argparse.Namespace) -> str:
        return f"{self.path(parsed)}/claims/{quote(parsed.claim, safe='')}"


class CreateClaim(FittedListCommand):
    """Claim messages, so that no other client gets them meanwhile. Shows each with its claim.

    Example: zaqar-redis claim create orders --limit 5 --ttl 300
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--limit", type=int, help="maximum of messages (10)")
        _add_lease(parser)
        parser.add_argument("--wait", type=int, metavar="SECONDS", help="wait for new messages")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        with self.open_api(parsed_args) as api:
            answer = api.request(
                "POST",
                f"{self.path(parsed_args)}/claims",
                _lease(parsed_args),
                limit=parsed_args.limit,
                wait=parsed_args.wait,
                with_attributes=True,
            )
            if not answer and self.app.options.verbose_level:
                with self.noticing("nothing to claim"):
                    api.require(self.path(parsed_args))
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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--limit", type=bounded_int(1, 1_000_000), metavar="N", help="maximum of claims (all)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        api = self.until_printed(self.open_api(parsed_args))
        found = api.list_linked(f"{self.path(parsed_args)}/claims", "claims")
        claims = (
            each | {"ends_in": each["ttl"] - each["age"]}
            for each in islice(found, parsed_args.limit)
        )
        columns = ("id", "messages", "ttl", "age", "ends_in", "client_id")
        return table(columns, claims, parsed_args)


class ShowClaim(ClaimCommand, ShowOne):
    """Show a live claim, and the messages that it still holds.

    Example: zaqar-redis claim show orders 51db6f78c50811e79e0f0242ac110002
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            found = api.request("GET", self.claim_path(parsed_args))
        shown = found | {"messages": [message["id"] for message in found["messages"]]}
        messages = Column("messages", as_text="\n".join)
        names, [values] = table(("ttl", "age", messages), [shown], parsed_args)
        return names, values


class RenewClaim(ClaimCommand):
    """Renew a live claim: its TTL counts from now.

    Example: zaqar-redis claim renew orders 51db6f78c50811e79e0f0242ac110002 --ttl 600
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_lease(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.open_api(parsed_args) as api:
            api.request("PATCH", self.claim_path(parsed_args), _lease(parsed_args))


class ReleaseClaim(ClaimCommand):
    """Release a claim: its messages can be claimed again at once.

    Example: zaqar-redis claim release orders 51db6f78c50811e79e0f0242ac110002
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.open_api(parsed_args) as api:
            api.request("DELETE", self.claim_path(parsed_args))


def _add_lease(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ttl", type=int, metavar="SECONDS", help="lifetime of the claim")
    parser.add_argument(
        "--grace", type=int, metavar="SECONDS", help="minimum that messages outlive the claim"
    )


def _lease(parsed: argparse.Namespace) -> dict[str, int]:
    fields = {"ttl": parsed.ttl, "grace": parsed.grace}
    return {name: value for name, value in fields.items() if value is not None}
