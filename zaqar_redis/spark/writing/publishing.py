# SPDX-License-Identifier: Apache-2.0
"""Publishes the chunks that tasks have staged, once all tasks are done.

The driver may die at any step, and then repeats all of them, with chunks that other tries
of the tasks have staged.  The tries that were chosen first stay chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zaqar_redis import clock, errors
from zaqar_redis.spark.stores import StoreConfig, StoreConnections, StoreLocation
from zaqar_redis.spark.writing import rows
from zaqar_redis.spark.writing.rows import RowChunk
from zaqar_redis.storage.redis.bulk.staged_chunks import RedisStagedChunks


class StagedChunksLost(Exception):
    """Staged chunks do not exist any more."""


@dataclass
class StagedChunks:
    """The chunks that a task has staged."""

    #: of the writer
    name: str
    #: of the try
    token: str
    #: by queue, the numbers of its chunks
    chunks: dict[str, list[int]] = field(default_factory=dict)
    #: by queue, bytes of the largest body
    largest: dict[str, int] = field(default_factory=dict)

    def add(self, queue: str, chunk: RowChunk) -> None:
        numbers = self.chunks.setdefault(queue, [])
        if chunk.number not in numbers[-1:]:  # a retry may put it twice
            numbers.append(chunk.number)
        self.largest[queue] = max(chunk.largest[queue], self.largest.get(queue, 0))


def publish(config: StoreConfig, batch: int, staged: Sequence[StagedChunks]) -> None:
    """Publishes a batch, in the order of tasks.

    Raises StagedChunksLost when chunks are missing, StoreUnavailable, BadRequest when a
    message is too large for its queue, and rows.BadRow when its queue requires encryption.
    """
    with StoreConnections(config) as stores:
        for queue in dict.fromkeys(queue for each in staged for queue in each.chunks):
            _QueuePublisher(
                stores, queue, [each for each in staged if queue in each.chunks]
            ).publish(batch)


class _QueuePublisher:
    def __init__(self, stores: StoreConnections, queue: str, staged: list[StagedChunks]) -> None:
        self._stores = stores
        self._project, self._queue = stores.config.project, queue
        self._staged = staged
        self._name = staged[0].name
        self._size = max(each.largest[queue] for each in staged)

    def publish(self, batch: int) -> None:
        self._stores.with_retry(self._queue, self._check)
        try:
            self._stores.with_retry(self._queue, lambda location: self._publish(location, batch))
        except (errors.EncryptionRequired, errors.PostRefused) as error:
            raise rows.refused(self._queue, error) from error

    def _check(self, location: StoreLocation) -> None:
        for each in self._staged:
            stored = self._stored_chunks(location, each.token)
            if list(stored) != each.chunks[self._queue]:
                raise StagedChunksLost(
                    f"{len(each.chunks[self._queue]) - len(stored)} chunks staged for the queue "
                    f'"{self._queue}" are gone: the queue was deleted meanwhile, or a store lost '
                    "them; start the query again"
                )

    def _publish(self, location: StoreLocation, batch: int) -> None:
        stages = self._stages(location)
        own = [each.token for each in self._staged]
        tokens = stages.begin(self._project, self._queue, self._name, batch, own).run()
        for token in tokens:
            for chunk in self._stored_chunks(location, token):
                stages.publish(
                    self._project,
                    self._queue,
                    self._name,
                    token,
                    chunk,
                    size=self._size,
                    default_ttl=rows.DEFAULT_TTL,
                    encrypted=False,
                ).run()
        if tokens:
            stages.end(self._project, self._queue, self._name, batch).run()

    def _stored_chunks(self, location: StoreLocation, token: str) -> Sequence[int]:
        return self._stages(location).chunks(self._project, self._queue, self._name, token).run()

    def _stages(self, location: StoreLocation) -> RedisStagedChunks:
        return RedisStagedChunks(self._stores.client(location.uri), clock.store)
