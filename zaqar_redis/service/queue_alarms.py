# SPDX-License-Identifier: Apache-2.0
"""Alarms about queues, which only somebody who looks again and again can raise."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from zaqar_redis import clock
from zaqar_redis.figures import Alarm, FailingSubscriptions, QueueFigures
from zaqar_redis.rules import described

#: Rounds over which a dead-letter queue must have grown.
_ROUNDS = 10
#: Most alarms about the queues of one project, and most projects with alarms: an operator reads
#: the first few.
_ALARMS_MAX, _PROJECTS_MAX = 20, 1000


class QueueAlarms:
    """What was seen of queues in rounds; between `begin` and `end` each queue is added once."""

    def __init__(self, stuck_after: int) -> None:
        """*stuck_after*: seconds that one claim may hold the oldest message of a queue."""
        self._stuck_after = stuck_after
        #: project and queue -> the claim that holds its oldest message, and since when (ms)
        self._holders: dict[tuple[str, str], tuple[str, int]] = {}
        self._held: dict[tuple[str, str], tuple[str, int]] = {}
        #: dead-letter queue -> how many messages it had in the last rounds
        self._sizes: dict[tuple[str, str], deque[int]] = {}
        #: queue with alarms on expiry -> how many messages had expired in the last rounds
        self._expired: dict[tuple[str, str], deque[int]] = {}
        self._expiring: dict[tuple[str, str], deque[int]] = {}
        #: dead-letter queues, and one of the queues that use each, of the round before and this one
        self._sources: dict[tuple[str, str], str] = {}
        self._targets: dict[tuple[str, str], str] = {}
        self._alarms: dict[str, list[Alarm]] = {}

    def begin(self) -> None:
        self._held, self._expiring, self._alarms = {}, {}, {}
        self._sizes = {each: self._sizes.get(each, deque(maxlen=_ROUNDS)) for each in self._targets}
        self._sources, self._targets = self._targets, {}

    def add(self, project: str, figures: QueueFigures) -> None:
        queue = project, figures.name
        if figures.dead_letter_queue:
            self._targets[project, figures.dead_letter_queue] = figures.name
        if figures.holder:
            self._check_holder(queue, figures)
        if figures.failing is not None:
            self._raise_failing(queue, figures.at, figures.failing)
        if figures.on_expiry == "alarm":
            self._check_expired(queue, figures.counters.expired)
        sizes = self._sizes.get(queue)
        if sizes is not None:
            self._check_size(queue, figures.total, sizes)

    def end(self) -> Mapping[str, Sequence[Alarm]]:
        """Returns the alarms of this round by project."""
        self._holders, self._expired = self._held, self._expiring
        return self._alarms

    def _check_holder(self, queue: tuple[str, str], figures: QueueFigures) -> None:
        holder, since = self._holders.get(queue, ("", 0))
        if holder != figures.holder:
            since = figures.held_since
        self._held[queue] = figures.holder, since
        seconds = clock.age(figures.at, since)
        if seconds >= self._stuck_after:
            self._raise(
                queue,
                f"The oldest message of queue {figures.name} has been held by claim "
                f"{figures.holder}{_client(figures)} for {duration(seconds)}; {figures.claimed} of "
                "its messages are claimed.",
                "Look whether the consumer that holds the claim still works. If not, release the "
                "claim: its messages can be claimed again at once.",
            )

    def _check_size(self, queue: tuple[str, str], total: int, sizes: deque[int]) -> None:
        least, last = min(sizes, default=total), sizes[-1] if sizes else total
        sizes.append(total)
        if total > least and total >= last:  # while it falls, somebody is at work on it
            self._raise(
                queue,
                f"The dead-letter queue {queue[1]} of {self._sources[queue]} has grown from "
                f"{least} to {total} messages within minutes.",
                "Look at its latest messages for why they fail, correct the consumer, and then "
                "redrive them.",
            )

    def _check_expired(self, queue: tuple[str, str], expired: int) -> None:
        numbers = self._expired.get(queue, deque(maxlen=_ROUNDS))
        self._expiring[queue] = numbers
        numbers.append(expired)
        number = expired - min(numbers)
        if number:
            self._raise(
                queue,
                f"{number} messages of queue {queue[1]} have expired within minutes: nobody has "
                "deleted them in time.",
                "Look whether its consumers work and are fast enough, or post with a longer TTL "
                '(the queue\'s "_default_message_ttl").',
            )

    def _raise_failing(
        self, queue: tuple[str, str], at: int, failing: FailingSubscriptions
    ) -> None:
        others = failing.number - 1
        more = f" {others} more of its subscriptions get nothing, either." if others else ""
        self._raise(
            queue,
            f"Subscription {failing.id} of {described(queue[1])} has got nothing for "
            f"{duration(clock.age(at, failing.since))}; the last attempt failed "
            f"{duration(clock.age(at, failing.failed_at))} ago: {failing.error}.{more}",
            "Mend the endpoint, or the way to it, and test it by `zaqar-redis subscription test`; "
            "then `zaqar-redis subscription replay` sends what was given up and has not expired. "
            "The next message that is delivered ends this. Delete the subscription if nobody "
            "needs it.",
        )

    def _raise(self, queue: tuple[str, str], text: str, remedy: str) -> None:
        project, name = queue
        if project not in self._alarms and len(self._alarms) >= _PROJECTS_MAX:
            return
        alarms = self._alarms.setdefault(project, [])
        if len(alarms) < _ALARMS_MAX:
            alarms.append(Alarm("warning", described(name), text, remedy))


def of_projects(alarms: Mapping[str, Sequence[Alarm]]) -> Iterator[Alarm]:
    """Yields alarms of projects for who sees them all: the subject names the project."""
    for project, found in alarms.items():
        for alarm in found:
            yield replace(alarm, subject=f"{alarm.subject} of project {project}")


def _client(figures: QueueFigures) -> str:
    return f" of client {figures.holder_client}" if figures.holder_client else ""


def duration(seconds: float) -> str:
    """Returns a duration in words, in its two largest units."""
    left = round(seconds)
    parts = []
    for name, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number} {name}")
    return " ".join(parts[:2]) or "0 s"
