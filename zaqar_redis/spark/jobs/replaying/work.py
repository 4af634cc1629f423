# SPDX-License-Identifier: Apache-2.0
"""What the tasks of a replay do.

The messages of a target come to one task, in order, and are cut into chunks that are
the same at each try: the ledger of the target knows which of them came in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from zaqar_redis import clock
from zaqar_redis.spark import archived, restoring, rows
from zaqar_redis.spark.archived import Message
from zaqar_redis.spark.counting import counting
from zaqar_redis.spark.jobs.tasks import Counts, Pace
from zaqar_redis.spark.restoring import Restore, Restored
from zaqar_redis.spark.sink import DEFAULT_TTL
from zaqar_redis.spark.stores import Place, Stores, Where
from zaqar_redis.storage.driver import NeedsSealing
from zaqar_redis.storage.drivers.redis.ledger import ChunkDiffers, Digest, Ledger

#: What becomes of a message.
WRITTEN, THERE, TWICE = "written", "already there", "twice in the archive"

#: Messages of a chunk.  Always the same, else a chunk would not be known again at another
#: rate; of more the rate would come in lumps, of fewer the way to Redis costs more.
CHUNK = 200
#: Bytes of a chunk.
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Replay:
    """It travels to tasks."""

    where: Where
    #: name of the entry in the ledgers
    name: str
    #: 16 bytes that stand for who posts, where the archive does not say
    client: bytes
    #: seconds; None: each message its own
    ttl: int | None
    #: by target, messages a second; none for a target: as fast as it goes
    rates: Mapping[str, float]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Counts:
        """Write the rows of a task, which are in order of their lives and ranks.

        Raises rows.BadRow, StoreUnavailable, BadRequest.
        """
        counts: Counts = Counter()
        with Stores(self.where) as stores, counting() as did:
            target: _Target | None = None
            last = None
            for name, life, message in self._messages(batches):
                if (life, message.rank) == last:
                    counts[name, TWICE] += 1
                    did(1)
                    continue
                last = life, message.rank
                if target is None or target.queue != name:
                    if target is not None:
                        target.flush()
                    target = _Target(self, stores, name, counts, did)
                target.add(message)
            if target is not None:
                target.flush()
        return counts

    def _messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, int, Message]]:
        for batch in batches:
            targets, lives = batch.column("target").to_pylist(), batch.column("life").to_pylist()
            found = archived.messages(batch, self.client)
            yield from zip(targets, lives, found, strict=True)


@dataclass
class _Target:
    replay: Replay
    stores: Stores
    queue: str
    counts: Counts
    #: told how many messages are done
    did: Callable[[int], None]
    _number: int = 0
    _digest: Digest = field(default_factory=Digest)
    _chunk: list[Message] = field(default_factory=list)
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._pace = Pace(self.replay.rates.get(self.queue))

    def add(self, message: Message) -> None:
        full = len(self._chunk) == CHUNK or self._bytes + message.size > _CHUNK_BYTES
        if self._chunk and full:
            self.flush()
        self._chunk.append(message)
        self._bytes += message.size

    def flush(self) -> None:
        if not self._chunk:
            return
        self._pace.wait()
        ttl = self.replay.ttl
        parts = [(each.ttl if ttl is None else ttl, each.delay, each.tail) for each in self._chunk]
        new = self._reach(partial(self._post, parts, self._digest.add(parts)))
        count = len(self._chunk)
        self.counts[self.queue, WRITTEN if new else THERE] += count
        self.did(count)
        if new:
            self._pace.did(count)
        self._number += 1
        self._chunk, self._bytes = [], 0

    def _reach(self, post: Callable[[Place], bool]) -> bool:
        try:
            return self.stores.patiently(self.queue, post, make=True)
        except ChunkDiffers as error:
            raise rows.BadRow(
                f'what comes for the queue "{self.queue}" is not what came the first time with '
                "this --write-id; nothing was written: archive, filters and --ttl must be the same"
            ) from error
        except NeedsSealing as error:
            raise rows.needs_sealing(self.queue) from error

    def _post(self, parts: Sequence[rows.Message], digest: str, place: Place) -> bool:
        ledger = Ledger(self.stores.client(place.uri), clock.store)
        return ledger.post(
            self.replay.where.project,
            self.queue,
            parts,
            name=self.replay.name,
            batch=0,
            chunk=self._number,
            digest=digest,
            size=max(each.size for each in self._chunk),
            default_ttl=DEFAULT_TTL,
            sealed=all(each.sealed for each in self._chunk),
        ).run()


@dataclass(frozen=True)
class Preserving:
    """Restores the rows of a task; it travels to tasks."""

    restore: Restore

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Restored:
        """Raises rows.BadRow, StoreUnavailable."""
        with counting() as did:
            return restoring.write(self.restore, _told(batches, did))


def _told(
    batches: Iterator[pa.RecordBatch], did: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        did(batch.num_rows)
