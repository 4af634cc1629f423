# SPDX-License-Identifier: Apache-2.0
"""What is not archived yet, in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zaqar_redis import errors
from zaqar_redis.spark import losses, offsets
from zaqar_redis.spark.jobs.archiving.books import Range
from zaqar_redis.spark.jobs.running import Refused
from zaqar_redis.spark.offsets import Entry
from zaqar_redis.spark.options import Options
from zaqar_redis.spark.stores import Stores
from zaqar_redis.spark.subscribed import Ends, Subscribed
from zaqar_redis.storage.drivers.redis import range_reader


class Planner:
    def __init__(self, options: Options, stores: Stores, *, fail: bool) -> None:
        self._stores = stores
        self._pattern = options["subscribePattern"]
        self._subscribed = Subscribed(options, stores)
        self._fail = fail
        #: losses that were gone around, each once
        self.losses: dict[str, None] = {}

    def waiting(self, reached: Mapping[str, Entry]) -> list[Range]:
        """What is there, and was not *reached* yet; by queue.

        Raises BadConfiguration when a queue that was named never was there, and Refused
        when what was to be read cannot be any more and that is a reason to fail.
        """
        names = self._subscribed.names()
        for queue in sorted(reached.keys() - set(names)):
            if self._pattern is not None and self._pattern.fullmatch(queue):
                self._gone(queue, reached[queue])
        found = [self._range(queue, reached.get(queue)) for queue in names]
        return [each for each in found if each is not None and each.messages]

    def _range(self, queue: str, reached: Entry | None) -> Range | None:
        ends = self._subscribed.ends(queue)
        if ends is None:
            if reached is not None:
                self._gone(queue, reached)
            elif self._pattern is None:
                raise errors.BadConfiguration(
                    f'--queue: there is no queue "{queue}" in the project '
                    f'"{self._stores.where.project}"'
                )
            return None
        top = ends.top
        start = top.first if reached is None else self._start(ends, reached)
        count = self._count(ends, start) if start < top.following else 0
        return Range(queue, top.epoch, start, top.following, count)

    def _start(self, ends: Ends, reached: Entry) -> int:
        epoch, offset = reached["epoch"], reached["offset"]
        try:
            return losses.start(ends.queue, epoch, offset, ends.top, True)
        except losses.DataLoss as error:
            self._lost(error)
            return losses.start(ends.queue, epoch, offset, ends.top, False)

    def _gone(self, queue: str, reached: Entry) -> None:
        try:
            losses.gone(queue, reached["epoch"], reached["offset"], True)
        except losses.DataLoss as error:
            self._lost(error)

    def _lost(self, error: losses.DataLoss) -> None:
        what = without_hint(error)
        if self._fail:
            raise Refused(f"{what}; --go-on-after-loss archives what is there now") from error
        self.losses[what] = None

    def _count(self, ends: Ends, start: int) -> int:
        client = self._stores.client(ends.place.uri)
        return range_reader.count(
            client, self._stores.where.project, ends.queue, start, ends.top.following
        )

    def same(self, ranges: Sequence[Range]) -> bool:
        """Whether the queues are those that were planned."""
        found = [(each, self._subscribed.ends(each.queue)) for each in ranges]
        return all(ends is not None and ends.top.epoch == each.epoch for each, ends in found)

    def cut(self, waiting: Sequence[Range], limit: int) -> tuple[list[Range], list[Range]]:
        """A batch of about *limit* messages, and what is left for later ones.

        Counted by messages: ranks whose messages are gone cost nothing.
        """
        shares = offsets.shared({each.queue: each.messages for each in waiting}, limit)
        batch, rest = [], []
        for each in waiting:
            end = self._bound(each, shares[each.queue])
            batch.append(replace(each, end=end, messages=shares[each.queue]))
            left = each.messages - shares[each.queue]
            if end < each.end and left > 0:
                rest.append(replace(each, start=end, messages=left))
        return batch, rest

    def _bound(self, whole: Range, messages: int) -> int:
        """The rank behind so many of its messages."""
        if messages >= whole.messages:
            return whole.end
        client = self._stores.client(self._stores.place(whole.queue).uri)
        project = self._stores.where.project
        found = range_reader.bounds(client, project, whole.queue, whole.start, [messages])
        return min(found[0], whole.end) if found else whole.end


def without_hint(error: Exception) -> str:
    """What was lost, without the advice for users of the data source."""
    return str(error).partition("; set the option")[0]
