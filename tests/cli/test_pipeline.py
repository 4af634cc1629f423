# SPDX-License-Identifier: Apache-2.0
"""The commands of the jobs are there where Spark is, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.jobs import commands

JOBS = ("analytics", "archive", "audit", "migrate", "redrive", "replay")
_WITHOUT = "sys.modules['pyspark'] = None"


def said(before: str, *words: str, timeout: float = 60) -> tuple[int, str]:
    """Exit code and output of the command, after a statement."""
    program = f"import sys\n{before}\nfrom zaqar_redis.cli.main import main\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}sys.exit(main({list(words)}))"],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_jobs_are_listed_where_spark_is() -> None:
    _, text = said("", "--help")
    assert [job for job in JOBS if f"pipeline {job}" not in text] == []


def test_nobody_mentions_them_where_it_is_not() -> None:
    _, text = said(_WITHOUT, "--help")
    assert "queue list" in text
    assert "pipeline" not in text
    code, text = said(_WITHOUT, "queue", "list", "--storage", "memory://")
    assert code == 0, text


@pytest.mark.parametrize("job", JOBS)
def test_each_job_has_a_help_with_an_example(job: str) -> None:
    code, text = said("", "pipeline", job, "--help")
    assert code == 0
    assert f"  zaqar-redis pipeline {job} " in text  # the usage begins with another name
    assert "--master" in text


@pytest.mark.parametrize(
    ("module", "words", "what"),
    [
        ("matplotlib", ["analytics", "--queue", "q"], "pip install '.[report]'"),
        ("deltalake", ["archive", "--queue", "q", "--format", "delta"], "pip install '.[delta]'"),
    ],
)
def test_a_library_that_is_missing_is_told_before_spark_starts(
    module: str, words: list[str], what: str
) -> None:
    without = f"sys.modules['{module}'] = None\nimport os\nos.environ['JAVA_HOME'] = '/nowhere'"
    code, text = said(without, "pipeline", *words, "--storage", "redis://127.0.0.1:1", "target")
    assert code == 1
    assert text.splitlines() == [text.strip()]
    assert what in text


@pytest.mark.timeout(300)
def test_an_archive_is_analysed_without_a_store(tmp_path: Path) -> None:
    code, text = said(
        f"import os\nos.environ['HOME'] = {str(tmp_path)!r}",
        *("pipeline", "analytics", "--archive", str(tmp_path / "lake"), str(tmp_path / "report")),
        *commands.IN_TURN,
        timeout=commands.PATIENCE,
    )
    assert code == 1
    assert text.splitlines()[-1] == f"file:{tmp_path}/lake is no archive of queues"
