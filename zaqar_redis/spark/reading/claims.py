# SPDX-License-Identifier: Apache-2.0
"""Claims on messages of queues, for streams and jobs that consume them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from zaqar_redis import clock
from zaqar_redis.keyspace.script import Verb
from zaqar_redis.spark.reading import decode
from zaqar_redis.spark.reading.decode import MessageSource
from zaqar_redis.spark.reading.group_lease import GroupLease
from zaqar_redis.spark.stores import StoreConnections, StoreLocation
from zaqar_redis.storage.redis.bulk import range_reader
from zaqar_redis.storage.redis.bulk.ranges import RawClaim, RedisRanges
from zaqar_redis.storage.redis.claims import RedisClaims
from zaqar_redis.storage.redis.queues import RedisQueues

#: Claim id, and the number of its messages.
CountedClaim = tuple[str, int]


@dataclass
class ClaimPartition(InputPartition):
    """Some claims of one queue."""

    queue: str
    claims: tuple[CountedClaim, ...]


class QueueClaims:
    """Makes and ends claims; a lease renews them.  Methods raise StoreUnavailable."""

    def __init__(self, stores: StoreConnections, lease: GroupLease) -> None:
        self._stores = stores
        self._project = stores.config.project
        self._lease = lease

    def sweep(self, queue: str) -> None:
        """Counts messages whose claim or delay has ended as claimable."""

        def sweep(location: StoreLocation) -> int:
            queues = RedisQueues(self._stores.client(location.uri), clock.store)
            return queues.sweep(self._project, queue).run()

        while self._stores.with_retry(queue, sweep):
            pass

    def create(self, queue: str, limit: int, before: int | None = None) -> CountedClaim | None:
        """Claims *limit* messages at most, and no more than can be claimed *before* a rank.

        Returns None when there is nothing to claim.
        """

        def create(location: StoreLocation) -> CountedClaim | None:
            most = limit
            if before is not None:
                client = self._stores.client(location.uri)
                ready = range_reader.count_claimable(client, self._project, queue, before)
                most = min(limit, ready)
            if most <= 0:
                return None
            claims = self._stores.claims(location)
            made = claims.create(self._project, queue, self._lease.lease, limit=most).run()
            return (made.claim_id, len(made.messages)) if made.claim_id else None

        claimed = self._stores.with_retry(queue, create)
        if claimed is not None:
            self._lease.add(queue, claimed[0])
        return claimed

    def is_complete(self, queue: str, claim: str, count: int) -> bool:
        """Returns whether the claim is alive, and was with *count* messages; renews it."""
        if self._lease.has(claim):
            return True

        def renew(location: StoreLocation) -> bool:
            if not self._lease.renew_at(self._stores, queue, claim, location):
                return False
            held = self._stores.claims(location).get(self._project, queue, claim).run()
            return held is not None and len(held.messages) == count

        complete = self._stores.with_retry(queue, renew)
        if complete:
            self._lease.add(queue, claim)
        return complete

    def consume(self, queue: str, claim: str) -> None:
        """Deletes the messages of the claim."""
        self._end(queue, claim, RedisClaims.consume)

    def release(self, queue: str, claim: str) -> None:
        self._end(queue, claim, RedisClaims.delete)

    def _end(
        self, queue: str, claim: str, verb: Callable[[RedisClaims, str, str, str], Verb[Any]]
    ) -> None:
        self._stores.with_retry(
            queue,
            lambda location: verb(self._stores.claims(location), self._project, queue, claim).run(),
        )
        self._lease.drop(claim)


def read(
    stores: StoreConnections, queue: str, claim: str, columns: tuple[str, ...]
) -> pa.RecordBatch | None:
    """Returns the messages of a claim; None: it has ended.  Raises StoreUnavailable."""
    project = stores.config.project

    def fetch(location: StoreLocation) -> tuple[StoreLocation, RawClaim | None]:
        ranges = RedisRanges(stores.client(location.uri), clock.store)
        return location, ranges.raw_claim(project, queue, claim).run()

    location, held = stores.with_retry(queue, fetch)
    if held is None or not held.ranks:
        return None
    source = MessageSource(project, queue, location.pool, held.epoch)
    held_until = [float(held.until)] * len(held.ranks)
    found = decode.rows(source, list(map(int, held.ranks)), held.envelopes, held.holds, held_until)
    return decode.batch(source, columns, found, held.now)
