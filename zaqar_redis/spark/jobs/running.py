# SPDX-License-Identifier: Apache-2.0
"""Runs a job from the command line, and by spark-submit."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zaqar_redis import errors
from zaqar_redis.keyspace import embedded
from zaqar_redis.spark.jobs import arguments
from zaqar_redis.spark.jobs.report import JobReport
from zaqar_redis.spark.jobs.session import session

#: Options of the data source to their flags on the command line.
_FLAGS = {
    "uri": "--storage",
    "controlUri": "--control",
    "project": "--project",
    "subscribe": "--queue",
    "subscribePattern": "--pattern",
}

#: Name of a job's module when spark-submit runs it.
MAIN = "__main__"


class SparkJob(Protocol):
    """The interface of a job's module."""

    #: name of the command
    NAME: str
    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the arguments of this job to those of all jobs."""

    def check(self, parsed: argparse.Namespace) -> None:
        """Checks arguments before Spark is started.  Raises BadConfiguration."""

    def run(self, spark: SparkSession, parsed: argparse.Namespace) -> JobReport:
        """Runs the job.  Raises BadConfiguration when arguments are not valid, JobRefused."""


class JobRefused(Exception):
    """The job cannot be done; the text says why."""


def run_job(job: SparkJob, parsed: argparse.Namespace) -> JobReport:
    """Runs a job in a session of its own.

    Raises BadConfiguration, JobRefused, and what Spark raises.
    """
    job.check(parsed)
    there = SparkSession.getActiveSession() is not None
    with embedded.running_if_embedded(parsed.storage or "") as uri:
        parsed.storage = uri or None
        began = time.monotonic()
        with session(job.NAME, parsed.master, dict(parsed.conf), parsed.priority) as spark:
            started = None if there else time.monotonic() - began
            return replace(_run(job, spark, parsed), spark_seconds=started)


def _run(job: SparkJob, spark: SparkSession, parsed: argparse.Namespace) -> JobReport:
    try:
        return job.run(spark, parsed)
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(_with_flag_names(str(error))) from error


def _with_flag_names(text: str) -> str:
    """Returns an error text with flags instead of options of the data source."""
    for option, flag in _FLAGS.items():
        text = text.replace(f'option "{option}"', flag)
    return text


def error_summary(error: Exception) -> str:
    """Returns one line: the last error of a Python worker, else Java's message."""
    lines = [line for line in str(error).splitlines() if "BadConfiguration: " in line]
    if lines:
        return lines[-1].partition("BadConfiguration: ")[2]
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getMessage())
    return str(error)


def main(job: SparkJob, argv: Sequence[str] | None = None) -> int:
    """Runs a job, prints its report, and returns the exit code.

    0; 1 when it failed or found something to act on; after a signal 128 plus its number.
    """
    parser = argparse.ArgumentParser(
        prog=f"zaqar-redis pipeline {job.NAME}",
        description=job.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_common(parser)
    job.add_arguments(parser)
    parsed = parser.parse_args(argv)
    try:
        report = run_job(job, parsed)
    except (errors.BadConfiguration, errors.Problem, JobRefused) as error:
        print(error, file=sys.stderr)
        return 1
    except (PySparkException, Py4JError) as error:
        print(error_summary(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)  # a terminal has just written ^C
        return 128 + signal.SIGINT
    print(report.as_json() if parsed.json else report.as_text())
    return report.code
