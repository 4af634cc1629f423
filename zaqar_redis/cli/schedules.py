# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis schedule …``: recurring posts."""

from __future__ import annotations

import argparse
from typing import Any

from zaqar_redis.cli.base import Column, Row, arg, given, json_text, resource_name, takes
from zaqar_redis.cli.messages import parse_assignment, parse_body
from zaqar_redis.cli.resources import (
    DeleteResource,
    ListResource,
    NamedResourceCommand,
    PutResource,
    ShowResource,
)

_TIMES = ("from", "until", "next", "last", "failure")
#: What the service adds to what it was given.
_SHOWN_ONLY = ("name", "href", "next", "last", "failure")


class ScheduleCommand(NamedResourceCommand):
    noun = argument = "schedule"
    columns = (
        *("name", "queue", "cron", "timezone", "paused", "missed", *_TIMES),
        Column("message", as_text=json_text),
    )


class ListSchedule(ListResource):
    """List recurring posts, by name, and when each is due.

    Example: zaqar-redis schedule list -f json
    """

    noun = "schedule"
    columns = ("name", "queue", "cron", "timezone", "paused", "next", "last", "failure")


class ShowSchedule(ScheduleCommand, ShowResource):
    """Show a recurring post: what, when next, and whether the last one was refused.

    Example: zaqar-redis schedule show report
    """


class CreateSchedule(ScheduleCommand, PutResource):
    """Create a recurring post, or replace it.

    The cron expression has five fields, or is @hourly, @daily (@midnight), @weekly, @monthly or
    @yearly (@annually). The body is JSON, or else plain text. Example:

        zaqar-redis schedule create report --queue jobs --cron '30 9 * * MON-FRI' \\
            --timezone Europe/Paris '{"job": "report"}'
    """

    arguments = takes(
        arg("body", type=parse_body, help="body of the message"),
        arg("--queue", type=resource_name, required=True, help="the queue that it posts to"),
        arg("--cron", required=True, metavar="EXPRESSION", help="when it posts"),
        arg("--timezone", metavar="ZONE", help="time zone of --cron, e.g. Europe/Paris (UTC)"),
        arg("--from", metavar="TIME", help="not before, e.g. 2030-01-31T12:00Z"),
        arg("--until", metavar="TIME", help="not after"),
        arg(
            "--missed",
            choices=("latest", "skip"),
            help="of missed times post the latest (default), or skip what is over a minute late",
        ),
        arg("--paused", action="store_true", default=None, help="post nothing until it is resumed"),
        arg("--ttl", type=int, metavar="SECONDS", help="time until the message expires"),
        arg("--delay", type=int, metavar="SECONDS", help="time until the message is visible"),
        arg("--group", metavar="GROUP", help="group that the message is in"),
        arg("--priority", type=int, metavar="NUMBER", help="0 to 31; the highest comes first"),
        arg(
            "--attribute",
            action="append",
            type=parse_assignment,
            metavar="NAME=VALUE",
            help="of the message, as of message post; may be repeated",
        ),
    )

    def document(self, parsed: argparse.Namespace) -> dict[str, Any]:
        message = {"body": parsed.body, **given(parsed, "ttl", "delay", "group", "priority")}
        if parsed.attribute:
            message["attributes"] = dict(parsed.attribute)
        fields = ("queue", "cron", "timezone", "from", "until", "missed", "paused")
        return {**given(parsed, *fields), "message": message}


class DeleteSchedule(ScheduleCommand, DeleteResource):
    """Cancel a recurring post; what it has posted stays.

    Example: zaqar-redis schedule delete report --yes
    """

    probe = ""


class PauseSchedule(ScheduleCommand, ShowResource):
    """Pause a recurring post: it posts nothing, and later nothing of that.

    Example: zaqar-redis schedule pause report
    """

    paused = True

    def shown(self, parsed: argparse.Namespace) -> tuple[Row, Row]:
        path = self.path(parsed)
        document = self.api.request("GET", path) | {"paused": self.paused}
        self.api.request("PUT", path, {k: v for k, v in document.items() if k not in _SHOWN_ONLY})
        return super().shown(parsed)


class ResumeSchedule(PauseSchedule):
    """Resume a paused recurring post, from now on.

    Example: zaqar-redis schedule resume report
    """

    paused = False
