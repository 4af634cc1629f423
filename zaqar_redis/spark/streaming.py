# SPDX-License-Identifier: Apache-2.0
"""What streaming readers have in common, whether they browse or claim."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from zaqar_redis import errors
from zaqar_redis.spark.offsets import Offset
from zaqar_redis.spark.options import Options
from zaqar_redis.spark.stores import Where

_ROWS, _BYTES = "maxOffsetsPerTrigger", "maxBytesPerTrigger"


class Planner(Protocol):
    """Says where batches begin and end.  For one process."""

    def initial(self) -> Offset:
        """Where a query begins that has no checkpoint."""

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends; *start*: there is none.  What ends there is done."""

    def freeze(self) -> None:
        """From now on there is nothing new."""

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch: the same ones whenever it is repeated."""

    def close(self) -> None: ...


P = TypeVar("P", bound=Planner)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[P]):
    """One lives as long as the query, in a process of its own; others read in tasks."""

    def __init__(self, at: Where, options: Options, pointless: Sequence[str]) -> None:
        """Raises BadConfiguration when options do not go together."""
        for name in pointless:
            if name in options.given:
                consume = options["consume"]
                raise errors.BadConfiguration(
                    f'option "{name}" means nothing with consume={consume}'
                )
        if options.given.issuperset((_ROWS, _BYTES)):
            options.one_of(_ROWS, _BYTES)  # Spark knows no limit by both
        self._where = at
        self._options = options
        self._planner: P | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a copy: connections and claims stay here.
        return self.__dict__ | {"_planner": None}

    @abstractmethod
    def begin(self) -> P:
        """The planner of the query."""

    @property
    def plan(self) -> P:
        if self._planner is None:
            self._planner = self.begin()
        return self._planner

    def initialOffset(self) -> Offset:
        return self.plan.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark hands it back with each batch.  Bytes become rows by the size of messages.
        if (rows := self._options[_ROWS]) is not None:
            return ReadMaxRows(rows)
        if (size := self._options[_BYTES]) is not None:
            return ReadMaxBytes(size)
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        return self.plan.latest(start, limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self.plan.freeze()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return self.plan.partitions(start, end)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()
