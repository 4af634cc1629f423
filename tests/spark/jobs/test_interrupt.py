# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a job cleanly with a single word; until then it shows its progress."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import archives, commands
from tests.spark.jobs.test_redrive import DEAD, post_dead_letters
from tests.support import servers
from tests.support.spark_reads import SparkTestStore

#: At the rate below the jobs take longer than the test waits.
_MESSAGES = 6000
#: A progress bar above zero.
_PROGRESS = re.compile(rf"(?:replaying|redriving): .* [1-9]\d*/{_MESSAGES} \[.* messages/s\]")
#: A line of a Python or Java traceback, or of Java's log.
_TRACE = re.compile(r"^Traceback|^\s+at [\w.]+|Exception|Error|\bERROR\b", re.MULTILINE)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_interrupted_jobs_show_progress_and_no_traceback(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(*range(_MESSAGES))
    archives.archive(spark, tmp_path / "lake", store)
    post_dead_letters(store, *range(_MESSAGES))
    words = ("--queue", "q", "--target-queue", "copy", "--rate", 20)
    stderr_files = tmp_path / "replay", tmp_path / "redrive"
    with (
        commands.running(
            store, "replay", tmp_path / "lake", *words, stderr=stderr_files[0]
        ) as replay,
        commands.running(
            store, "redrive", "--queue", DEAD, "--rate", 20, stderr=stderr_files[1]
        ) as redrive,
    ):
        servers.wait_for(
            lambda: all(_PROGRESS.search(each.read_text()) for each in stderr_files),
            "some messages of both",
            commands.TIMEOUT_SECONDS,
        )
        for process in (replay, redrive):  # as a terminal does, to all processes of the job
            os.killpg(process.pid, signal.SIGINT)
        assert [each.wait(commands.TIMEOUT_SECONDS) for each in (replay, redrive)] == [130, 130]
    for each in stderr_files:
        text = each.read_text()
        assert _TRACE.findall(text) == [], text
        assert text.endswith("\ninterrupted\n")
    assert 0 < store.last_rank("copy") < _MESSAGES
    assert _MESSAGES < store.last_rank() < 2 * _MESSAGES
    assert store.leases(DEAD) == {}, "what was not moved can be claimed at once"
