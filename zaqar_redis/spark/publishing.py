# SPDX-License-Identifier: Apache-2.0
"""What tasks have put aside is published, once all of them are done.

The driver may die at any step, and then does all of it again, with what other tries of
the tasks have put aside.  The tries that were chosen first stay chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zaqar_redis import clock, rules
from zaqar_redis.spark import rows
from zaqar_redis.spark.rows import Chunk
from zaqar_redis.spark.stores import Place, Stores, Where
from zaqar_redis.storage.driver import NeedsSealing
from zaqar_redis.storage.drivers.redis.stages import Stages

_TTL = rules.Limits().default_message_ttl


class StageLost(Exception):
    """What was put aside is not there any more."""


@dataclass
class Staged:
    """What a task has put aside."""

    #: of the writer
    name: str
    #: of the try
    token: str
    #: by queue, the chunks
    chunks: dict[str, list[int]] = field(default_factory=dict)
    #: by queue, bytes of the largest body
    largest: dict[str, int] = field(default_factory=dict)

    def note(self, queue: str, chunk: Chunk) -> None:
        numbers = self.chunks.setdefault(queue, [])
        if chunk.number not in numbers[-1:]:  # it may be put twice
            numbers.append(chunk.number)
        self.largest[queue] = max(chunk.largest[queue], self.largest.get(queue, 0))


def publish(at: Where, batch: int, staged: Sequence[Staged]) -> None:
    """Publish a batch, in the order of tasks.

    Raises StageLost when chunks are missing, StoreUnavailable, BadRequest when a message
    is too large for its queue, and rows.BadRow when its queue wants it encrypted.
    """
    with Stores(at) as stores:
        for queue in dict.fromkeys(queue for each in staged for queue in each.chunks):
            _Queue(stores, queue, [each for each in staged if queue in each.chunks]).publish(batch)


class _Queue:
    def __init__(self, stores: Stores, queue: str, staged: list[Staged]) -> None:
        self._stores = stores
        self._project, self._queue = stores.where.project, queue
        self._staged = staged
        self._name = staged[0].name
        self._size = max(each.largest[queue] for each in staged)

    def publish(self, batch: int) -> None:
        self._stores.patiently(self._queue, self._check)
        try:
            self._stores.patiently(self._queue, lambda place: self._publish(place, batch))
        except NeedsSealing as error:
            raise rows.needs_sealing(self._queue) from error

    def _check(self, place: Place) -> None:
        for each in self._staged:
            there = self._waiting(place, each.token)
            if list(there) != each.chunks[self._queue]:
                raise StageLost(
                    f'of what was put aside for the queue "{self._queue}", '
                    f"{len(each.chunks[self._queue]) - len(there)} chunks are gone: it was "
                    "deleted meanwhile, or a store lost them; start the query again"
                )

    def _publish(self, place: Place, batch: int) -> None:
        stages = self._stages(place)
        own = [each.token for each in self._staged]
        tokens = stages.begin(self._project, self._queue, self._name, batch, own).run()
        for token in tokens:
            for chunk in self._waiting(place, token):
                stages.publish(
                    self._project,
                    self._queue,
                    self._name,
                    token,
                    chunk,
                    size=self._size,
                    default_ttl=_TTL,
                    sealed=False,
                ).run()
        if tokens:
            stages.end(self._project, self._queue, self._name, batch).run()

    def _waiting(self, place: Place, token: str) -> Sequence[int]:
        return self._stages(place).chunks(self._project, self._queue, self._name, token).run()

    def _stages(self, place: Place) -> Stages:
        return Stages(self._stores.client(place.uri), clock.store)
