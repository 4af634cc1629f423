# SPDX-License-Identifier: Apache-2.0
"""Streaming reads that take messages: each batch is a few claims.

    {"acme/orders": {"claims": "4f…:1000 9a…:212", "epoch": "9f…", "offset": 8, "parts": 1}}

*offset* counts the batches of the queue, *claims* are those of the batch that ends here,
with the number of messages in each.  They are deleted once the batch is in the commit
log, which Spark tells of late or not at all: to be asked for what comes behind a batch
is the first certain sign of it.

A batch that is repeated is read from the same claims.  If one of them has ended in
between, its messages are on their way to others, so all of the batch goes back: a part
of it would have other rows than the first time, and a sink that counts them would take
those for rows that it has.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from zaqar_redis import clock, errors
from zaqar_redis.records import Held
from zaqar_redis.spark import decode, holding, losses, offsets, partitions
from zaqar_redis.spark.decode import Origin
from zaqar_redis.spark.holding import Holding
from zaqar_redis.spark.offsets import Entry, Offset
from zaqar_redis.spark.options import Options
from zaqar_redis.spark.stores import Place, Stores, Where
from zaqar_redis.spark.streaming import StreamReader
from zaqar_redis.spark.subscribed import Ends, Subscribed
from zaqar_redis.spark.waiting import Waiting
from zaqar_redis.storage.drivers.redis import range_reader
from zaqar_redis.storage.drivers.redis.queues import Queues
from zaqar_redis.storage.drivers.redis.ranges import Ranges

LOG = logging.getLogger(__name__)

#: Messages of a claim: a few milliseconds of Redis' time to make or to end it.
_CLAIM = 1000
#: Messages of a batch when nothing says so: the offset, which names the claims, is some
#: 4000 characters then.
_BATCH = 100_000
#: Options that mean nothing when messages are claimed: the queue says which come next.
_POINTLESS = (
    "startingOffsets",
    "startingTimestamp",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeExpired",
)


@dataclass
class ClaimPartition(InputPartition):
    """Some claims of one queue."""

    queue: str
    #: claim and how many messages it has
    claims: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        super().__init__(None)


class ClaimEnded(Exception):
    """A claim is not what it was when its batch was planned."""


class ClaimReader(StreamReader["_Planner"]):
    def __init__(self, at: Where, options: Options, columns: tuple[str, ...]) -> None:
        """Raises BadConfiguration."""
        if options["group"] is None:
            raise errors.BadConfiguration('option "group" must be given with consume=claim')
        super().__init__(at, options, _POINTLESS)
        self._columns = columns

    def begin(self) -> _Planner:
        planner = _Planner(self._options, Stores(self._where))
        planner.begin()
        return planner

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        claims = cast(ClaimPartition, partition)
        with Stores(self._where) as stores:
            for claim, count in claims.claims:
                yield _batch(stores, self._columns, claims, claim, count)

    def commit(self, end: Offset) -> None:
        self.plan.acknowledge(end)


def _batch(
    stores: Stores, columns: tuple[str, ...], partition: ClaimPartition, claim: str, count: int
) -> pa.RecordBatch:
    """The messages of a claim.  Raises ClaimEnded unless they are all there."""
    project, queue = stores.where.project, partition.queue

    def look(place: Place) -> tuple[Place, Held | None]:
        ranges = Ranges(stores.client(place.uri), clock.store)
        return place, ranges.of_claim(project, queue, claim).run()

    place, held = stores.patiently(queue, look)
    if held is None or len(held.ranks) != count:
        raise ClaimEnded(
            f'a claim of {count} messages of the queue "{queue}" has ended before its batch was '
            "read; start the query again: its messages come back, or are claimed again"
        )
    origin = Origin(project, queue, place.pool, held.epoch)
    ends = [float(held.until)] * count
    found = decode.rows(origin, list(map(int, held.ranks)), held.envelopes, held.holds, ends)
    return decode.batch(origin, columns, found, held.now)


class _Planner:
    """Claims what Spark is told of, and ends what it has done."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._stores = stores
        self._project = stores.where.project
        self._ttl, self._grace = int(options["claimTtl"]), int(options["claimGrace"])
        self._subscribed = Subscribed(options, stores)
        self._waiting = Waiting(stores, options["maxWait"])
        self._holding = Holding(stores.where, options["group"], self._ttl, self._grace)
        #: with AvailableNow: by queue, the rank to stop before
        self._frozen: dict[str, int] | None = None
        self._idle: Offset | None = None
        #: claims of the last batch that was acknowledged
        self._ended: set[str] = set()
        #: by queue, the epoch that it is in as far as was said
        self._epochs: dict[str, str] = {}
        #: queues that are not there, which was said
        self._gone: set[str] = set()

    def begin(self) -> None:
        self._holding.begin()

    def close(self) -> None:
        self._holding.end()
        self._waiting.close()
        self._stores.close()

    def initial(self) -> Offset:
        return offsets.sorted_(
            {
                self._key(ends.queue): _entry(ends.top.epoch, 0, [])
                for ends in self._subscribed.present()
            }
        )

    def freeze(self) -> None:
        self._frozen = {}
        for queue in self._subscribed.names():
            ends = self._subscribed.ends(queue)
            if ends is not None:
                self._stores.patiently(queue, partial(self._settle, queue))
                self._frozen[queue] = ends.top.following

    def _settle(self, queue: str, place: Place) -> None:
        """Let messages whose claim or delay has ended be counted among the claimable."""
        queues = Queues(self._stores.client(place.uri), clock.store)
        while queues.sweep(self._project, queue).run():
            pass

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """Claim the next batch.  Raises holding.GroupTaken."""
        self._holding.begin()
        self.acknowledge(start)
        give_up = self._waiting.end()
        if start == self._idle and self._frozen is None and not self._waiting.news(give_up):
            return start
        while True:
            found = self._looked(start)
            self._waiting.looked(found)
            end = self._claimed(start, found, limit)
            if end != start:
                self._idle = None
                return end
            self._idle = start
            if self._frozen is not None or time.monotonic() >= give_up:
                return start
            if not self._waiting.news(give_up):
                return start

    def _looked(self, start: Offset) -> list[Ends]:
        """What queues hold.  Raises losses.DataLoss when one is not there any more."""
        found = []
        for queue in self._subscribed.names():
            ends = self._subscribed.ends(queue)
            if ends is not None:
                found.append(ends)
            elif (before := start.get(self._key(queue))) and queue not in self._gone:
                losses.gone(queue, before["epoch"], 0, self._options["failOnDataLoss"])
                self._gone.add(queue)
        self._gone.difference_update(ends.queue for ends in found)
        return found

    def _claimed(self, start: Offset, found: Sequence[Ends], limit: ReadLimit) -> Offset:
        for ends in found:
            self._check(ends, start.get(self._key(ends.queue)))
        queues = [ends for ends in found if ends.top.count]
        left = self._rows(limit, queues)
        claims: dict[str, list[tuple[str, int]]] = {}
        # In turn, so that none starves behind a long one.
        while queues and left > 0:
            for ends in tuple(queues):
                claimed = self._claim(ends, min(left, _CLAIM))
                if claimed is None:
                    queues.remove(ends)
                    continue
                claims.setdefault(ends.queue, []).append(claimed)
                left -= claimed[1]
                if left <= 0:
                    break
        epochs = {ends.queue: ends.top.epoch for ends in found}
        new = {
            self._key(queue): _entry(
                epochs[queue], start.get(self._key(queue), {"offset": 0})["offset"] + 1, taken
            )
            | {"parts": self._parts(taken)}
            for queue, taken in claims.items()
        }
        return offsets.sorted_(start | new)

    def _check(self, ends: Ends, before: Entry | None) -> None:
        """Raises losses.DataLoss when the queue is another one than it was."""
        if before is None:
            return
        if self._epochs.get(ends.queue, before["epoch"]) != ends.top.epoch:
            fail = self._options["failOnDataLoss"]
            losses.start(ends.queue, before["epoch"], 0, ends.top, fail)
        self._epochs[ends.queue] = ends.top.epoch

    def _claim(self, ends: Ends, limit: int) -> tuple[str, int] | None:
        """A claim and how many messages it got; None: there is nothing to claim."""
        if self._frozen is not None:
            limit = min(limit, self._left(ends, self._frozen.get(ends.queue, 0)))
        if limit <= 0:
            return None
        taken = self._stores.patiently(
            ends.queue,
            lambda place: (
                holding.claims_at(self._stores, place.uri)
                .create(self._project, ends.queue, ttl=self._ttl, grace=self._grace, limit=limit)
                .run()
            ),
        )
        if taken.claim_id is None:
            return None
        self._holding.add(ends.queue, taken.claim_id)
        return taken.claim_id, len(taken.messages)

    def _left(self, ends: Ends, before: int) -> int:
        """Claimable messages that were there when AvailableNow began."""
        client = self._stores.client(ends.place.uri)
        return range_reader.ready(client, self._project, ends.queue, before)

    def _rows(self, limit: ReadLimit, queues: Sequence[Ends]) -> int:
        match limit:
            case ReadMaxRows(rows):
                return rows
            case ReadMaxBytes(size):
                tops = [ends.top for ends in queues]
                weight = sum(top.size * top.count for top in tops)
                return max(1, size * sum(top.count for top in tops) // weight) if weight else _BATCH
            case _:
                return _BATCH

    def acknowledge(self, offset: Offset) -> None:
        """Delete the messages of the batch that ends here.  Idempotent."""
        ended = set()
        for key, entry in offset.items():
            for claim, _ in _claims(entry):
                if claim not in self._ended:
                    self._consume(offsets.queue_of(key), claim)
                ended.add(claim)
        self._ended = ended

    def _consume(self, queue: str, claim: str) -> None:
        self._stores.patiently(
            queue,
            lambda place: (
                holding.claims_at(self._stores, place.uri)
                .consume(self._project, queue, claim)
                .run()
            ),
        )
        self._holding.drop(claim)

    def partitions(self, start: Offset, end: Offset) -> Sequence[ClaimPartition]:
        changed = {key: entry for key, entry in end.items() if entry != start.get(key)}
        if not self._is_whole(changed):
            return []
        made = []
        for key, entry in changed.items():
            claims = _claims(entry)
            parts = entry["parts"]
            for part in range(parts):
                share = tuple(
                    claims[len(claims) * part // parts : len(claims) * (part + 1) // parts]
                )
                if share:
                    made.append(ClaimPartition(offsets.queue_of(key), share))
        return made

    def _parts(self, claims: Sequence[tuple[str, int]]) -> int:
        return partitions.parts(
            sum(count for _, count in claims),
            partitions.wanted(self._options),
            self._options["maxRecordsPerPartition"],
        )

    def _is_whole(self, changed: Offset) -> bool:
        """Whether every claim of the batch is alive; if not, none is any more."""
        claims = [
            (offsets.queue_of(key), *claim)
            for key, entry in changed.items()
            for claim in _claims(entry)
        ]
        if all(self._is_alive(*claim) for claim in claims):
            return True
        LOG.warning(
            "claims of an unfinished batch have ended; its messages will come again",
            extra={"action": "batch_given_back"},
        )
        for queue, claim, _ in claims:
            self._release(queue, claim)
        return False

    def _is_alive(self, queue: str, claim: str, count: int) -> bool:
        if self._holding.has(claim):
            return True

        def renewed(place: Place) -> bool:
            claims = holding.claims_at(self._stores, place.uri)
            if not claims.update(
                self._project, queue, claim, ttl=self._ttl, grace=self._grace
            ).run():
                return False
            held = claims.get(self._project, queue, claim).run()
            return held is not None and len(held.messages) == count

        alive = self._stores.patiently(queue, renewed)
        if alive:
            self._holding.add(queue, claim)
        return alive

    def _release(self, queue: str, claim: str) -> None:
        self._stores.patiently(
            queue,
            lambda place: (
                holding.claims_at(self._stores, place.uri).delete(self._project, queue, claim).run()
            ),
        )
        self._holding.drop(claim)

    def _key(self, queue: str) -> str:
        return offsets.key(self._project, queue)


def _entry(epoch: str, number: int, claims: Sequence[tuple[str, int]]) -> Entry:
    named = " ".join(f"{claim}:{count}" for claim, count in claims)
    return {"epoch": epoch, "offset": number} | ({"claims": named} if named else {})


def _claims(entry: Entry) -> list[tuple[str, int]]:
    pairs = (word.split(":") for word in entry.get("claims", "").split())
    return [(claim, int(count)) for claim, count in pairs]
