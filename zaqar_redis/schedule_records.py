# SPDX-License-Identifier: Apache-2.0
"""The values of recurring posts: times are milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from zaqar_redis.records import DAY_MS, IdempotencyKey, NewMessage, Record

R = TypeVar("R", bound=Record)

#: What is posted of times that were missed: the latest of them, or none that is late.
Missed = Literal["latest", "skip"]

#: Milliseconds by which a clock may be set back before schedules are planned anew: until it is
#: where it was, they wait.
SET_BACK_MAX = 3_600_000

#: As long as a queue knows a writer: longer than a control store is away.
_KNOWN_MS = 14 * DAY_MS


class Schedule(Record, frozen=True):
    """A recurring post, as its owner wants it."""

    queue: str
    cron: str
    #: its body may be encrypted, whether the queue wants that or not
    message: NewMessage
    timezone: str = "UTC"
    #: 0: at once
    start: int = 0
    #: 0: for ever
    until: int = 0
    paused: bool = False
    missed: Missed = "latest"

    def encode(self) -> bytes:
        """Returns it as stores and backups have it."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, definition: bytes) -> Schedule:
        fields = msgspec.msgpack.decode(definition)
        # A decoder cannot tell bytes from text in attributes.
        fields["message"] = _known(NewMessage, fields["message"])
        return _known(cls, fields)


def _known(kind: type[R], fields: Mapping[str, Any]) -> R:
    """Returns the record; fields of later releases are ignored."""
    return kind(**{name: fields[name] for name in kind.__struct_fields__ if name in fields})


class StoredSchedule(Record, frozen=True):
    """A schedule, and what has become of it."""

    project: str
    name: str
    schedule: Schedule
    #: changes whenever the schedule is replaced
    version: str
    #: when it is due; 0: not any more, or not while it is paused
    next: int = 0
    #: when that was found, by the clock of the store
    planned: int = 0
    #: the time for which it has posted last; 0: it has not
    last: int = 0
    #: why the last post was refused; empty: it was not
    failure: str = ""


class DueSchedules(Record, frozen=True):
    #: by the clock of the store
    now: int
    items: Sequence[StoredSchedule] = ()
    #: when another one is due; 0: none is
    next: int = 0
    #: the clock was set back: times are posted as it says that were posted before
    set_back: bool = False


class OccurrenceKey(IdempotencyKey, frozen=True):
    """Identifies the post of a schedule for one time.

    A store with a ledger also refuses times before the writer's last one, and knows the writer
    for the window, whatever window the queue has for its keys.
    """

    writer: str = ""
    number: int = 0

    @classmethod
    def of(cls, version: str, at: int) -> OccurrenceKey:
        """Returns that of a version of a schedule."""
        writer = f"schedule {version}"
        return cls(f"{writer} {at}", b"", _KNOWN_MS, writer, at)
