# SPDX-License-Identifier: Apache-2.0
"""Stages batches: reads ranges of queues, and writes their messages to files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from zaqar_redis.spark import offsets
from zaqar_redis.spark.jobs.archiving import layout, transaction_log, verification
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import ArchiveFile, Manifest, RankRange


class BatchStager:
    def __init__(self, spark: SparkSession, files: HadoopFolder, source: Mapping[str, str]) -> None:
        self._spark = spark
        self._files = files
        #: options of the data source, except queues and ranks
        self._source = source

    def stage(self, number: int, ranges: Sequence[RankRange]) -> Manifest:
        """Writes a batch, to be change *number*.

        Raises JobRefused, and what Spark raises when it cannot read.
        """
        attempt = transaction_log.attempt()
        folder = f"{transaction_log.STAGED}/{attempt}"
        starts = {each.queue: offsets.up_to(each.epoch, each.start) for each in ranges}
        ends = {each.queue: offsets.up_to(each.epoch, each.end) for each in ranges}
        reader = self._spark.read.format("zaqar").options(
            **self._source,
            subscribe=",".join(starts),
            columns=",".join(layout.COLUMNS),
            startingOffsets=json.dumps(starts),
            endingOffsets=json.dumps(ends),
        )
        layout.stage(reader.load(), self._files.at(folder))
        staged = self._spark.read.schema(layout.SCHEMA).parquet(self._files.at(folder))
        files = tuple(
            ArchiveFile(
                staged=name,
                name=layout.final(name.removeprefix(f"{folder}/"), number, part),
                rows=stats.rows,
                size=stats.size,
            )
            for part, (name, stats) in enumerate(
                sorted(verification.found(staged, self._files).items())
            )
        )
        return Manifest(number, attempt, files, self._source["project"], tuple(ranges))
