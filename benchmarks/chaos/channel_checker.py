# SPDX-License-Identifier: Apache-2.0
"""Checks what subscribers of channels saw against what is promised."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from benchmarks.chaos.checker import ChaosFinding, IsAtRisk
from benchmarks.chaos.history import Act

#: Seconds by which a publication may arrive after its acknowledgement, and by which subscribers
#: may notice late that the store has older data.
_LATE_SECONDS, _NOTICE_SECONDS = 2.0, 20.0


class ChannelPosition(NamedTuple):
    epoch: str
    offset: int


class ChannelHistory:
    """The acts of one channel, in the order in which they began."""

    def __init__(self, channel: str, acts: Sequence[Act]) -> None:
        self.channel = channel
        self.received = [act for act in acts if act.kind == "receive"]
        #: by body
        self.publications = {act.bodies[0]: act for act in acts if act.kind == "publish"}
        self.subscribers: dict[str, list[Act]] = defaultdict(list)
        for act in acts:
            if act.kind in ("subscribe", "receive", "leave"):
                self.subscribers[act.client].append(act)

    def finding(self, rule: str, what: str, is_excused: bool = False) -> ChaosFinding:
        return ChaosFinding(rule, self.channel, what, is_excused)


def check_channel(
    history: ChannelHistory, is_at_risk: IsAtRisk, is_replaced: IsAtRisk
) -> list[ChaosFinding]:
    """Returns all that is not as promised.

    *is_replaced*: whether an act ended while a primary was being replaced. Then a publication may
    be seen by subscribers, and lost before it is acknowledged; subscribers are told.
    """

    def may_vanish(act: Act) -> bool:
        """Whether what was received may be lost: before its acknowledgement, or in spite of it."""
        publication = history.publications.get(act.bodies[0])
        lost = publication is not None and (not publication.is_ok or is_at_risk(publication))
        return lost and is_replaced(act)

    found = [
        finding
        for subscriber, seen in history.subscribers.items()
        for finding in (
            *_holes(history, subscriber, seen),
            *_missed(history, subscriber, seen, is_at_risk),
            *_gaps(history, subscriber, seen, may_vanish),
        )
    ]
    return [*found, *_contents(history, may_vanish), *_order(history, is_at_risk)]


def _holes(history: ChannelHistory, subscriber: str, seen: Sequence[Act]) -> Iterator[ChaosFinding]:
    """Offsets grow by one, unless the subscriber was told that something is missing."""
    at: ChannelPosition | None = None
    for act in seen:
        if act.kind == "leave":
            continue
        here = ChannelPosition(act.epoch, act.offset)
        if act.kind == "subscribe":
            if act.recovered and at != here:
                text = f"{subscriber} recovered at {here.offset}, and was somewhere else"
                yield history.finding("hole", text)
        elif at and here != (at.epoch, at.offset + 1):
            text = f"{subscriber} received offset {here.offset} after {at.offset}"
            yield history.finding("hole", text)
        at = here


def _missed(
    history: ChannelHistory, subscriber: str, seen: Sequence[Act], is_at_risk: IsAtRisk
) -> Iterator[ChaosFinding]:
    """What was acknowledged is received, once, by who is subscribed.

    A subscriber that was killed may lack the last ones, and one that was told of a gap what was
    published since it had received something.
    """
    counts = Counter(act.bodies[0] for act in seen if act.kind == "receive")
    for body, count in counts.items():
        if count > 1:
            yield history.finding("twice", f"{subscriber} received {body} {count} times")
    if seen[-1].kind != "leave":
        return
    gaps = [(before, act) for before, act in pairwise(seen) if _is_gap(act)]
    for body, publication in history.publications.items():
        told = any(
            before.end - _LATE_SECONDS <= publication.end and publication.begin <= gap.end
            for before, gap in gaps
        )
        was_there = publication.begin > seen[0].end
        if publication.is_ok and was_there and not counts[body] and not told:
            text = f"{subscriber} did not receive {body}, which was acknowledged"
            yield history.finding("lost", text, is_at_risk(publication))


def _is_gap(act: Act) -> bool:
    return act.kind == "subscribe" and not act.recovered


def _gaps(
    history: ChannelHistory, subscriber: str, seen: Sequence[Act], may_vanish: IsAtRisk
) -> Iterator[ChaosFinding]:
    """A subscriber is told of a gap only when somebody saw what was lost with a primary."""
    for gap in filter(_is_gap, seen[1:]):
        vanished = any(
            may_vanish(act)
            for act in history.received
            if gap.end - _NOTICE_SECONDS <= act.end <= gap.end
        )
        text = f"{subscriber} was told that publications are missing"
        yield history.finding("gap", text, vanished)


def _contents(history: ChannelHistory, may_vanish: IsAtRisk) -> Iterator[ChaosFinding]:
    """An offset has the same publication for all, and each publication has one offset."""
    first: dict[ChannelPosition, Act] = {}
    positions: dict[str, ChannelPosition] = {}
    for act in history.received:
        at, body = ChannelPosition(act.epoch, act.offset), act.bodies[0]
        other = first.setdefault(at, act)
        if other.bodies[0] != body:
            text = f"offset {at.offset} is {other.bodies[0]} for one, {body} for another"
            yield history.finding("id", text, may_vanish(act) or may_vanish(other))
        if positions.setdefault(body, at) != at:
            text = f"{body} has offsets {positions[body].offset} and {at.offset}"
            yield history.finding("twice", text)
        if body not in history.publications or history.publications[body].outcome == "refused":
            yield history.finding("unexpected", f"{body} was not published, and was received")


def _order(history: ChannelHistory, is_at_risk: IsAtRisk) -> Iterator[ChaosFinding]:
    """A publication that was acknowledged before another one was made has the lower offset."""
    positions = {act.bodies[0]: ChannelPosition(act.epoch, act.offset) for act in history.received}
    last: Act | None = None
    for body, act in history.publications.items():
        here = positions.get(body)
        if here and last and last.end < act.begin:
            before = positions[last.bodies[0]]
            if here.epoch == before.epoch and here.offset <= before.offset:
                text = f"{body} was published after {last.bodies[0]}, and is before it"
                yield history.finding("order", text, is_at_risk(last))
        if here and act.is_ok:
            last = act
