# SPDX-License-Identifier: Apache-2.0
"""What streaming readers have in common, whether they browse or claim."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from zaqar_redis import errors
from zaqar_redis.spark.offsets import Offset, QueueOffset
from zaqar_redis.spark.options import BROWSE, CLAIM, SourceOptions
from zaqar_redis.spark.reading.stream_planner import StreamPlanner
from zaqar_redis.spark.stores import StoreConfig, StoreConnections

_ROWS, _BYTES = "maxOffsetsPerTrigger", "maxBytesPerTrigger"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives as long as the query, in its own process; copies of it read in tasks."""

    planner_class: ClassVar[type[StreamPlanner]]
    #: options of streams without a meaning for this one
    unsupported: ClassVar[tuple[str, ...]]

    @staticmethod
    @abstractmethod
    def knows(entry: QueueOffset) -> bool:
        """Returns whether the entry may be of a reader like this one."""

    def __init__(
        self, config: StoreConfig, options: SourceOptions, columns: tuple[str, ...]
    ) -> None:
        """Raises BadConfiguration when options do not go together."""
        options.none_of(self.unsupported, f"with consume={options['consume']}")
        options.at_most_one_of(_ROWS, _BYTES)  # Spark knows no limit by both
        self._config = config
        self._options = options
        self._columns = columns
        self._planner: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a copy: connections and claims stay here.
        return self.__dict__ | {"_planner": None}

    @property
    def planner(self) -> StreamPlanner:
        if self._planner is None:
            self._planner = self.planner_class(self._options, StoreConnections(self._config))
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
        self._check(start)
        return self.planner.latest(start, limit)

    def reportLatestOffset(self) -> Offset:
        return self.planner.latest_available()

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.freeze()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        self._check(end)
        return self.planner.partitions(start, end)

    def commit(self, end: Offset) -> None:
        self.planner.acknowledge(end)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    def _check(self, offset: Offset) -> None:
        """Raises BadConfiguration for a checkpoint of the other kind, whose numbers mean else."""
        if not all(map(self.knows, offset.values())):
            consume = self._options["consume"]
            other = BROWSE if consume == CLAIM else CLAIM
            raise errors.BadConfiguration(
                f'option "consume": the checkpoint is of a stream with consume={other}; give one '
                f"with consume={consume} a checkpointLocation of its own"
            )
