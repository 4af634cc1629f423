# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a job in order, and with one word; until then it says how far it is."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import servers
from tests.spark.jobs import archives, commands
from tests.spark.jobs.test_redrive import DEAD, bury
from tests.spark.support import Store

#: At the rate below it takes longer than anybody waits for either.
_MESSAGES = 6000
#: Of a progress bar that has moved.
_PROGRESS = re.compile(rf"(?:replaying|redriving): .* [1-9]\d*/{_MESSAGES} \[.* messages/s\]")
#: A line of a Python's or a Java's trace, or of Java's log.
_TRACE = re.compile(r"^Traceback|^\s+at [\w.]+|Exception|Error|\bERROR\b", re.MULTILINE)


@pytest.mark.timeout(300)
def test_jobs_that_are_interrupted_have_counted_messages_and_leave_no_traces(
    spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    store.post(*range(_MESSAGES))
    archives.archive(spark, tmp_path / "lake", store)
    bury(store, *range(_MESSAGES))
    words = ("--queue", "q", "--target-queue", "copy", "--rate", 20)
    told = tmp_path / "replay", tmp_path / "redrive"
    with (
        commands.running(store, "replay", tmp_path / "lake", *words, said=told[0]) as replay,
        commands.running(store, "redrive", "--queue", DEAD, "--rate", 20, said=told[1]) as redrive,
    ):
        servers.wait_for(
            lambda: all(_PROGRESS.search(each.read_text()) for each in told),
            "some messages of both",
            commands.PATIENCE,
        )
        for process in (replay, redrive):  # as a terminal does, to all processes of the job
            os.killpg(process.pid, signal.SIGINT)
        assert [each.wait(commands.PATIENCE) for each in (replay, redrive)] == [130, 130]
    for each in told:
        text = each.read_text()
        assert _TRACE.findall(text) == [], text
        assert text.endswith("\ninterrupted\n")
    assert 0 < store.last_rank("copy") < _MESSAGES
    assert _MESSAGES < store.last_rank() < 2 * _MESSAGES
    assert store.leases(DEAD) == {}, "what was not moved can be claimed at once"
