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
from zaqar_redis.spark.options import SourceOptions
from zaqar_redis.spark.stores import StoreConfig

_ROWS, _BYTES = "maxOffsetsPerTrigger", "maxBytesPerTrigger"


class StreamPlanner(Protocol):
    """Plans where batches begin and end.  For one process."""

    def initial(self) -> Offset:
        """Returns the offset at which a query without a checkpoint begins."""

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """Returns the end of the next batch; *start*: no batch.  All before *start* is done."""

    def freeze(self) -> None:
        """Ignores messages that are posted from now on."""

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Returns the tasks of a batch: the same ones whenever it is repeated."""

    def close(self) -> None: ...


P = TypeVar("P", bound=StreamPlanner)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[P]):
    """One lives as long as the query, in its own process; copies of it read in tasks."""

    def __init__(
        self, config: StoreConfig, options: SourceOptions, unsupported: Sequence[str]
    ) -> None:
        """Raises BadConfiguration when options do not go together."""
        for name in unsupported:
            if name in options.given:
                consume = options["consume"]
                raise errors.BadConfiguration(
                    f'option "{name}" means nothing with consume={consume}'
                )
        if options.given.issuperset((_ROWS, _BYTES)):
            options.exactly_one_of(_ROWS, _BYTES)  # Spark knows no limit by both
        self._config = config
        self._options = options
        self._planner: P | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a copy: connections and claims stay here.
        return self.__dict__ | {"_planner": None}

    @abstractmethod
    def begin(self) -> P:
        """Returns the planner of the query, started."""

    @property
    def planner(self) -> P:
        if self._planner is None:
            self._planner = self.begin()
        return self._planner

    def initialOffset(self) -> Offset:
        return self.planner.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark passes it back with each batch.  Bytes become rows by the size of messages.
        if (rows := self._options[_ROWS]) is not None:
            return ReadMaxRows(rows)
        if (size := self._options[_BYTES]) is not None:
            return ReadMaxBytes(size)
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        return self.planner.latest(start, limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.freeze()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return self.planner.partitions(start, end)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()
