# SPDX-License-Identifier: Apache-2.0
"""What clients have done: two lines for each act, written when it begins and when it is answered.

A line is written at once, so a killed client loses none; an act without its second line may or may
not have been done. Times are seconds of the monotonic clock, which all processes share.
"""

from __future__ import annotations

import enum
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec


class ActOutcome(enum.StrEnum):
    OK = "ok"
    #: it may have been done, or may be done later
    UNKNOWN = "unknown"
    #: it was answered that it was not done
    REFUSED = "refused"


class Act(msgspec.Struct, omit_defaults=True):
    """What a client asked for, and the answer."""

    client: str
    #: of the acts of the client
    number: int
    #: post, claim, delete, release, renew, publish, subscribe, receive, leave; move, of a queue
    kind: str
    begin: float
    #: the queue or channel
    place: str = ""
    end: float = math.inf
    outcome: ActOutcome = ActOutcome.UNKNOWN
    #: of the messages, in their order
    bodies: Sequence[str] = ()
    ids: Sequence[str] = ()
    claim: str = ""
    #: seconds, of a claim
    ttl: int = 0
    #: HTTP status, or code of a channel's error, of the last answer; 0: none
    status: int = 0
    #: how often it was sent
    attempts: int = 1
    #: of a subscription or publication
    epoch: str = ""
    offset: int = 0
    recovered: bool = False

    @property
    def is_ok(self) -> bool:
        return self.outcome is ActOutcome.OK


class ActRecorder:
    """Appends acts to a file."""

    def __init__(self, file: Path, client: str) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._client = client
        self._next = 0

    def begin(self, kind: str, place: str, bodies: Sequence[str] = (), **more: Any) -> Act:
        """Records that an act begins; *more*: fields of `Act`."""
        number, self._next = self._next, self._next + 1
        begin = time.monotonic()
        act = Act(self._client, number, kind, begin, place, bodies=bodies, **more)
        self._write(act)
        return act

    def end(self, act: Act, outcome: ActOutcome, status: int = 0) -> None:
        act.end, act.outcome, act.status = time.monotonic(), outcome, status
        self._write(act)

    def note(self, kind: str, place: str, bodies: Sequence[str] = (), **more: Any) -> None:
        """Records what needs no answer."""
        now = time.monotonic()
        number, self._next = self._next, self._next + 1
        self._write(Act(self._client, number, kind, now, place, now, ActOutcome.OK, bodies, **more))

    def _write(self, act: Act) -> None:
        os.write(self._file, msgspec.json.encode(act) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read(files: Iterable[Path]) -> list[Act]:
    """Returns all acts in the order in which they began, without lines that were cut off."""
    found: dict[tuple[str, int], Act] = {}
    for file in files:
        for act in _lines(file):
            found[act.client, act.number] = act
    return sorted(found.values(), key=lambda act: act.begin)


def _lines(file: Path) -> Iterator[Act]:
    decoder = msgspec.json.Decoder(Act)
    for line in file.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield decoder.decode(line)
