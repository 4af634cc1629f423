# SPDX-License-Identifier: Apache-2.0
"""The progress bar of a job shows what its tasks have done, and leaves the session as it was."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from pyspark.sql import SparkSession

from zaqar_redis.spark import task_progress
from zaqar_redis.spark.jobs.progress import progress_bar


def test_progress_bar_shows_what_tasks_have_done(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(numbers: Iterable[int]) -> None:
        with task_progress.report_progress() as done:
            for number in numbers:
                done(number)

    context = spark.sparkContext
    with progress_bar(spark, "counting", total=60):
        assert context.getLocalProperty(task_progress.PROGRESS_PROPERTY)
        context.parallelize([10, 20, 30], 2).foreachPartition(work)
    assert context.getLocalProperty(task_progress.PROGRESS_PROPERTY) is None
    assert "counting: 100%" in capsys.readouterr().err


def test_progress_bar_without_counts_shows_the_time_and_quiet_shows_nothing(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar(spark, "reading", counted=False):
        pass
    assert "reading: 00:" in capsys.readouterr().err
    with progress_bar(spark, "reading", quiet=True):
        pass
    assert capsys.readouterr().err == ""
