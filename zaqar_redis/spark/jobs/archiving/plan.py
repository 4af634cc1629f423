# SPDX-License-Identifier: Apache-2.0
"""Plans batches of what is not archived yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zaqar_redis import errors
from zaqar_redis.spark import offsets
from zaqar_redis.spark.jobs.archiving.transaction_log import RankRange
from zaqar_redis.spark.jobs.running import JobRefused
from zaqar_redis.spark.offsets import QueueOffset
from zaqar_redis.spark.options import SourceOptions
from zaqar_redis.spark.reading import data_loss
from zaqar_redis.spark.reading.selection import QueueSelection, QueueSnapshot
from zaqar_redis.spark.stores import StoreConnections
from zaqar_redis.storage.redis.bulk import range_reader


class ArchivePlanner:
    def __init__(self, options: SourceOptions, stores: StoreConnections, *, fail: bool) -> None:
        self._stores = stores
        self._pattern = options["subscribePattern"]
        self._selection = QueueSelection(options, stores)
        self._fail = fail
        #: losses that archiving skipped, each once
        self.losses: dict[str, None] = {}

    def waiting(self, reached: Mapping[str, QueueOffset]) -> list[RankRange]:
        """Returns the ranges of queues behind the offsets *reached*.

        Raises BadConfiguration when a named queue does not exist and was never archived, and
        JobRefused when messages to be read are lost, unless losses are to be skipped.
        """
        names = self._selection.names()
        for queue in sorted(reached.keys() - set(names)):
            if self._pattern is not None and self._selection.matches(queue):
                self._gone(queue, reached[queue])
        found = [self._range(queue, reached.get(queue)) for queue in names]
        return [each for each in found if each is not None and each.messages]

    def _range(self, queue: str, reached: QueueOffset | None) -> RankRange | None:
        snapshot = self._selection.snapshot(queue)
        if snapshot is None:
            if reached is not None:
                self._gone(queue, reached)
            elif self._pattern is None:
                raise errors.BadConfiguration(
                    f'--queue: there is no queue "{queue}" in the project '
                    f'"{self._stores.config.project}"'
                )
            return None
        watermarks = snapshot.watermarks
        start = watermarks.first if reached is None else self._start(snapshot, reached)
        end = watermarks.next_rank
        count = self._selection.count(snapshot, start, end) if start < end else 0
        return RankRange(queue, watermarks.epoch, start, end, count)

    def _start(self, snapshot: QueueSnapshot, reached: QueueOffset) -> int:
        epoch, offset = reached["epoch"], reached["offset"]
        try:
            return data_loss.resume_rank(snapshot.queue, epoch, offset, snapshot.watermarks, True)
        except data_loss.DataLoss as error:
            self._lost(error)
            return data_loss.resume_rank(snapshot.queue, epoch, offset, snapshot.watermarks, False)

    def _gone(self, queue: str, reached: QueueOffset) -> None:
        try:
            data_loss.queue_deleted(queue, reached["epoch"], reached["offset"], True)
        except data_loss.DataLoss as error:
            self._lost(error)

    def _lost(self, error: data_loss.DataLoss) -> None:
        if self._fail:
            raise JobRefused(
                f"{error.what}; --go-on-after-loss archives what is there now"
            ) from error
        self.losses[error.what] = None

    def same(self, ranges: Sequence[RankRange]) -> bool:
        """Returns whether the queues still have the epochs that were planned."""
        found = [(each, self._selection.snapshot(each.queue)) for each in ranges]
        return all(
            snapshot is not None and snapshot.watermarks.epoch == each.epoch
            for each, snapshot in found
        )

    def cut(
        self, waiting: Sequence[RankRange], limit: int
    ) -> tuple[list[RankRange], list[RankRange]]:
        """Returns a batch of about *limit* messages, and the rest for later ones.

        The limit counts messages: ranks whose messages are gone cost nothing.
        """
        shares = offsets.rate_limit({each.queue: each.messages for each in waiting}, limit)
        batch, rest = [], []
        for each in waiting:
            end = self._bound(each, shares[each.queue])
            batch.append(replace(each, end=end, messages=shares[each.queue]))
            left = each.messages - shares[each.queue]
            if end < each.end and left > 0:
                rest.append(replace(each, start=end, messages=left))
        return batch, rest

    def _bound(self, whole: RankRange, messages: int) -> int:
        """Returns the rank behind so many of the range's messages."""
        if messages >= whole.messages:
            return whole.end
        client = self._stores.client(self._stores.location(whole.queue).uri)
        project = self._stores.config.project
        found = range_reader.ranks_at(client, project, whole.queue, whole.start, [messages])
        return min(found[0], whole.end) if found else whole.end
