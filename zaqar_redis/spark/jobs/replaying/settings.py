# SPDX-License-Identifier: Apache-2.0
"""Settings of a replay."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from zaqar_redis import errors, rules
from zaqar_redis.spark.jobs import arguments
from zaqar_redis.spark.jobs.arguments import argument
from zaqar_redis.spark.options import TTL_MAX, id_text

_WHAT, _HOW = "what", "how"


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: it must be like 2026-11-21") from error


_DAY: Any = {"type": _date, "metavar": "DATE", "group": _WHAT}
_RANK: Any = {
    "type": int,
    "metavar": "RANK",
    "group": _WHAT,
    "check": arguments.bounds(0, 2**53 - 1),
}


@dataclass(frozen=True)
class ReplaySettings:
    """What to replay, and how.  Limits are inclusive; None: no limit."""

    #: queues of the archive; None: all of the project
    queues: Sequence[str] | None = argument(
        "a queue, or a topic as topic:NAME; may be given more than once",
        flag="--queue",
        action="append",
        metavar="QUEUE",
        group=_WHAT,
        check=arguments.stored_name,
    )
    date_from: date | None = argument("first day, in UTC", **_DAY)  # noqa: RUF009  # a field
    rank_from: int | None = argument("first rank", **_RANK)
    date_to: date | None = argument("last day, in UTC", **_DAY)  # noqa: RUF009  # a field
    rank_to: int | None = argument("last rank", **_RANK)
    target: str | None = argument(
        "where to post them (where they came from)",
        flag="--target-queue",
        metavar="QUEUE",
        group=_HOW,
        check=arguments.queue_name,
    )
    ttl: int | None = argument(
        "how long they live (their own)",
        type=int,
        metavar="SECONDS",
        group=_HOW,
        check=arguments.bounds(rules.TTL_MIN, TTL_MAX),
    )
    rate: float | None = arguments.rate(group=_HOW)
    write_id: str | None = argument(
        "name of this replay (derived from what it reads)",
        metavar="NAME",
        group=_HOW,
        check=id_text,
    )
    preserve: bool = argument("restore queues as they were", default=False, group=_HOW)
    dry_run: bool = argument("only report what would be done", default=False, group=_HOW)
    quiet: bool = True

    def target_of(self, queue: str) -> str:
        return self.target or queue


def check(replay_settings: ReplaySettings) -> None:
    """Raises BadConfiguration that names the argument."""
    if replay_settings.queues is not None and not replay_settings.queues:
        raise errors.BadConfiguration("queues: it is empty; None means all of the project")
    arguments.check(replay_settings)
    for name, value in (("--ttl", replay_settings.ttl), ("--rate", replay_settings.rate)):
        if replay_settings.preserve and value is not None:
            raise errors.BadConfiguration(f"{name}: it means nothing with --preserve")
