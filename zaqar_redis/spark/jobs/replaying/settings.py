# SPDX-License-Identifier: Apache-2.0
"""Settings of a replay."""

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
class ReplaySettings:
    """What to replay, and how.  Limits are inclusive; None: no limit."""

    #: queues of the archive; None: all of the project
    queues: Sequence[str] | None = None
    #: days of creation, in UTC
    dates: tuple[date | None, date | None] = (None, None)
    ranks: tuple[int | None, int | None] = (None, None)
    #: None: the queue that each came from
    target: str | None = None
    #: seconds; None: each message its own
    ttl: int | None = None
    #: messages a second
    rate: float | None = None
    #: None: derived from what is read
    write_id: str | None = None
    preserve: bool = False
    dry_run: bool = False
    quiet: bool = True

    def target_of(self, queue: str) -> str:
        return self.target or queue


def check(replay_settings: ReplaySettings) -> None:
    """Raises BadConfiguration that names the argument."""
    if replay_settings.queues is not None and not replay_settings.queues:
        raise errors.BadConfiguration("queues: it is empty; None means all of the project")
    for name in replay_settings.queues or ():
        tasks.check_queue_name("--queue", name)
    tasks.check_queue_name("--target-queue", replay_settings.target)
    tasks.check_bounds("--ttl", replay_settings.ttl, rules.TTL_MIN, TTL_MAX)
    tasks.check_bounds("--rate", replay_settings.rate, _RATE_LEAST, _RATE_MOST)
    for name, rank in zip(("--rank-from", "--rank-to"), replay_settings.ranks, strict=True):
        tasks.check_bounds(name, rank, 0, _RANK_MOST)
    if replay_settings.write_id is not None and not re.fullmatch(
        r"[A-Za-z0-9_.-]{1,64}", replay_settings.write_id
    ):
        raise errors.BadConfiguration(
            "--write-id: it must be 1 to 64 ASCII letters, digits, underscores, dashes and dots"
        )
    for name, value in (("--ttl", replay_settings.ttl), ("--rate", replay_settings.rate)):
        if replay_settings.preserve and value is not None:
            raise errors.BadConfiguration(f"{name}: it means nothing with --preserve")
