# SPDX-License-Identifier: Apache-2.0
"""The commands of Spark jobs exist only where Spark is installed."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from tests.spark.jobs import commands
from tests.support import processes
from tests.support.command_line import CommandLine

JOBS = ("analytics", "archive", "audit", "migrate", "redrive", "replay")
_WITHOUT = "sys.modules['pyspark'] = None"


def run_after(before: str, *words: str, timeout: float = 60) -> tuple[int, str]:
    """Runs a command after a Python statement; returns exit code and output."""
    program = f"import sys\n{before}\nfrom zaqar_redis.cli.main import main\n"
    command = [sys.executable, "-c", f"{program}sys.exit(main({list(words)}))"]
    done = processes.run(command, timeout=timeout)
    return done.returncode, done.stdout + done.stderr


def test_jobs_are_listed_when_spark_is_installed() -> None:
    text = CommandLine().done("--help")
    assert [job for job in JOBS if f"pipeline {job}" not in text] == []


def test_jobs_are_hidden_when_spark_is_missing() -> None:
    _, text = run_after(_WITHOUT, "--help")
    assert "queue list" in text
    assert "pipeline" not in text
    code, text = run_after(_WITHOUT, "queue", "list", "--storage", "memory://")
    assert code == 0, text


nightly = partial(pytest.param, marks=pytest.mark.nightly)


@pytest.mark.parametrize("job", JOBS)
def test_help_of_each_job_has_an_example(job: str) -> None:
    text = CommandLine().done("pipeline", job, "--help")
    assert (
        f"  zaqar-redis pipeline {job} " in text
    )  # from the example: the usage shows another program name
    assert "--master" in text


@pytest.mark.parametrize(
    ("module", "words", "what"),
    [
        ("matplotlib", ["analytics", "--queue", "q"], "pip install '.[report]'"),
        nightly("jinja2", ["analytics", "--queue", "q"], "pip install '.[report]'"),
        nightly(
            "deltalake", ["archive", "--queue", "q", "--format", "delta"], "pip install '.[delta]'"
        ),
    ],
)
def test_missing_library_is_reported_before_spark_starts(
    module: str, words: list[str], what: str
) -> None:
    without = f"sys.modules['{module}'] = None\nimport os\nos.environ['JAVA_HOME'] = '/nowhere'"
    code, text = run_after(
        without, "pipeline", *words, "--storage", "redis://127.0.0.1:1", "target"
    )
    assert code == 1
    assert text.splitlines() == [text.strip()]
    assert what in text


@pytest.mark.parametrize(
    ("master", "what"),
    [
        ("nowhere", '"nowhere" is no master of Spark; it must be like local[2], spark://host:7077'),
        nightly("local[two]", '"local[two]" is no master of Spark'),
        nightly("spark://127.0.0.1:1", "spark://127.0.0.1:1 cannot be reached: [Errno 111]"),
        nightly("spark://127.0.0.1", "spark://127.0.0.1 cannot be reached: "),
    ],
)
def test_unusable_master_is_reported_in_one_line(master: str, what: str) -> None:
    words = ("archive", "--queue", "q", "--master", master, "--storage", "redis://127.0.0.1:1")
    code, text = run_after("", "pipeline", *words, "target")
    assert code == 1
    assert text.splitlines() == [text.strip()]
    assert what in text


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_analytics_of_an_archive_needs_no_store(tmp_path: Path) -> None:
    code, text = run_after(
        f"import os\nos.environ['HOME'] = {str(tmp_path)!r}",
        *("pipeline", "analytics", "--archive", str(tmp_path / "lake"), str(tmp_path / "report")),
        *commands.IN_TURN,
        timeout=commands.TIMEOUT_SECONDS,
    )
    assert code == 1
    assert text.splitlines()[-1] == f"file:{tmp_path}/lake is no archive of queues"
