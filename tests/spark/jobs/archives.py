# SPDX-License-Identifier: Apache-2.0
"""Archives for tests, and their contents."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.spark.jobs import commands
from tests.support.spark_reads import SparkTestStore
from zaqar_redis.spark.jobs import archive as job
from zaqar_redis.spark.jobs.archiving.settings import ArchiveSettings
from zaqar_redis.spark.jobs.report import JobReport


def archive(
    spark: SparkSession, target: Path, store: SparkTestStore, queues: str = "q", **settings: Any
) -> JobReport:
    source = {"uri": store.uri, "project": store.project, "subscribe": queues}
    return job.archive(spark, str(target), source, ArchiveSettings(**settings))


def files(target: Path) -> list[Path]:
    """Returns the files that Parquet readers take for data."""
    return sorted(target.glob("project=*/queue=*/date=*/[!_.]*.parquet"))


def ranks(target: Path, queue: str = "q") -> list[int]:
    """Returns the sorted ranks in the files, with duplicates."""
    found: list[int] = []
    for file in files(target):
        if f"queue={queue}" in file.parts:
            found += pq.ParquetFile(file).read(["rank"]).column("rank").to_pylist()
    return sorted(found)


def duplicates(ranks: list[int]) -> dict[int, int]:
    return {rank: count for rank, count in Counter(ranks).items() if count > 1}


def archived(report: JobReport) -> int:
    """Returns the number of archived messages; checks the sums of the report."""
    of_ranks, by_queue = report.counts["ranks read"], report.counts["messages archived"]
    assert isinstance(of_ranks, dict)
    assert isinstance(by_queue, dict)
    assert of_ranks["archived"] == sum(by_queue.values())
    return int(of_ranks["archived"])


class PipelineProcess:
    """``zaqar-redis pipeline …`` in a process of its own."""

    def __init__(self, store: SparkTestStore, *words: str) -> None:
        where = ["--storage", store.uri, "--project", store.project, "--master", "local[2]"]
        where += commands.IN_TURN
        begin = [sys.executable, "-m", "zaqar_redis.cli.main", "pipeline"]
        self.process = subprocess.Popen(
            [*begin, *words, "--no-progress", "--json", *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, dict[str, Any], str]:
        """Waits for the end; returns exit code, report and stderr."""
        out, err = self.process.communicate(timeout=commands.TIMEOUT_SECONDS)
        return self.process.returncode, json.loads(out) if out.strip() else {}, err
