# SPDX-License-Identifier: Apache-2.0
"""What a replay is told to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from zaqar_redis import errors, rules
from zaqar_redis.spark.jobs import tasks
from zaqar_redis.spark.options import TTL_MAX

_RATE_LEAST, _RATE_MOST = 0.001, 1e9
_RANK_MOST = 2**53 - 1


@dataclass(frozen=True)
class Settings:
    """Limits are included; None: no limit."""

    #: queues of the archive; None: all of the project
    queues: Sequence[str] | None = None
    #: of their creation, in UTC
    dates: tuple[date | None, date | None] = (None, None)
    ranks: tuple[int | None, int | None] = (None, None)
    #: None: the queue that each came from
    target: str | None = None
    #: seconds; None: each message its own
    ttl: int | None = None
    #: messages a second
    rate: float | None = None
    #: None: by what is read
    write_id: str | None = None
    preserve: bool = False
    dry_run: bool = False
    quiet: bool = True

    def target_of(self, queue: str) -> str:
        return self.target or queue


def check(how: Settings) -> None:
    """Raises BadConfiguration that names the argument."""
    if how.queues is not None and not how.queues:
        raise errors.BadConfiguration("queues: there is none in it; None is all of the project")
    for name in how.queues or ():
        tasks.check_queue("--queue", name)
    tasks.check_queue("--target-queue", how.target)
    tasks.check("--ttl", how.ttl, rules.TTL_MIN, TTL_MAX)
    tasks.check("--rate", how.rate, _RATE_LEAST, _RATE_MOST)
    for name, rank in zip(("--rank-from", "--rank-to"), how.ranks, strict=True):
        tasks.check(name, rank, 0, _RANK_MOST)
    if how.write_id is not None and not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", how.write_id):
        raise errors.BadConfiguration(
            "--write-id: it must be 1 to 64 ASCII letters, digits, underscores, dashes and dots"
        )
    for name, value in (("--ttl", how.ttl), ("--rate", how.rate)):
        if how.preserve and value is not None:
            raise errors.BadConfiguration(f"{name}: it means nothing with --preserve")
