# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis quota …``."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from zaqar_redis import rules
from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import Column, arg, given, json_text, takes
from zaqar_redis.cli.resources import (
    DeleteResource,
    ListResource,
    NamedResourceCommand,
    PutResource,
    ShowResource,
)

_HELP = {
    "requests": "requests a second",
    "queues": "queues",
    "messages": "stored messages",
    "bytes": "bytes of stored messages",
    "sockets": "open WebSockets and streams",
}
_COLUMNS = ("project", *_HELP)


def project_name(text: str) -> str:
    """Checks an argument that names a project."""
    if not 0 < len(text) <= rules.PROJECT_MAX or not text.isascii() or "/" in text:
        raise argparse.ArgumentTypeError(
            f"a project with a quota has 1 to {rules.PROJECT_MAX} ASCII characters, and no slash"
        )
    return text


class QuotaCommand(NamedResourceCommand):
    noun = "quota"
    argument = "project"
    argument_type = staticmethod(project_name)
    columns = (*_COLUMNS, Column("usage", as_text=json_text))

    def path(self, parsed: argparse.Namespace) -> str:
        return f"/quotas/{quote(parsed.name)}"


class ListQuota(ListResource):
    """List the projects that have a quota of their own. -1 is no limit.

    Example: zaqar-redis quota list
    """

    noun = "quota"
    columns = _COLUMNS


class ShowQuota(QuotaCommand, ShowResource):
    """Show the quota of a project, and its usage. -1 is no limit.

    Example: zaqar-redis quota show orders
    """


class SetQuota(QuotaCommand, PutResource):
    """Give a project a quota of its own, or replace it.

    Omitted limits follow the service's options ([quota]); -1 is no limit. Workers apply it
    within five seconds. Example:

        zaqar-redis quota set orders --requests 100 --messages 1000000
    """

    resets = tuple(_HELP)
    arguments = takes(
        *(
            arg(f"--{name}", type=int, metavar="N", help=f"{what}, at most")
            for name, what in _HELP.items()
        )
    )

    def document(self, parsed: argparse.Namespace) -> dict[str, Any]:
        limits = given(parsed, *_HELP)
        if not limits:
            names = ", ".join(f"--{name}" for name in _HELP)
            raise CommandFailed(f"nothing to set: give at least one of {names}")
        return limits


class UnsetQuota(QuotaCommand, DeleteResource):
    """Remove the quota of a project: the service's options apply.

    Example: zaqar-redis quota unset orders --yes
    """

    def question(self, parsed: argparse.Namespace) -> str:
        return f"Remove the quota of the project {parsed.name}"
