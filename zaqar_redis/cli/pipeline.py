# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis pipeline …``: the jobs on Spark.

These commands exist where the extra ``spark`` is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
from typing import ClassVar, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import TargetCommand
from zaqar_redis.cli.target import URI_VARIABLE
from zaqar_redis.keyspace import embedded
from zaqar_redis.spark.jobs import arguments, running
from zaqar_redis.spark.jobs.running import SparkJob


class PipelineCommand(TargetCommand):
    """Base of the jobs' commands."""

    job_name: ClassVar[str]

    @property
    def job(self) -> SparkJob:
        return cast(SparkJob, importlib.import_module(f"zaqar_redis.spark.jobs.{self.job_name}"))

    def get_description(self) -> str:
        return self.job.__doc__ or ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.job.add_arguments(parser)
        return parser

    def target_options(self, parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
        arguments.add_common(parser)
        files = parser.add_argument_group("target, without --storage")
        files.add_argument(
            "--profile",
            metavar="NAME",
            help="the store of a profile (default: the profile in use)",
        )
        files.add_argument(
            "--config-file",
            action="append",
            metavar="FILE",
            help="configuration file, which may name the store",
        )
        return files

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._code = 0
        return super().run(parsed_args) or self._code

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        for logger_name in ("zaqar_redis", "py4j"):  # a command prints its result, no log
            logging.getLogger(logger_name).setLevel(logging.WARNING)
        with contextlib.ExitStack() as stack:
            if self.needs_target(parsed_args) and not self.target.is_explicit:
                # Not as an option: query plans show options, and a URI may have a password.
                running_store = embedded.running_if_embedded(self.target.uri)
                os.environ[URI_VARIABLE] = stack.enter_context(running_store)
            try:
                report = running.run_job(self.job, parsed_args)
            except running.JobRefused as error:
                raise CommandFailed(str(error)) from error
            except (PySparkException, Py4JError) as error:
                raise CommandFailed(running.error_summary(error)) from error
        text = report.as_json() if parsed_args.json else report.as_text()
        self.app.stdout.write(f"{text}\n")
        self._code = report.code


class RunArchive(PipelineCommand):
    """Archive queues as Parquet files by project, queue and date."""

    job_name = "archive"


class RunReplay(PipelineCommand):
    """Post messages of an archive again."""

    job_name = "replay"


class RunAnalytics(PipelineCommand):
    """Analyse queues, live or archived: tables as Parquet, and a report with plots."""

    job_name = "analytics"

    def needs_target(self, parsed: argparse.Namespace) -> bool:
        return parsed.archive is None


class RunRedrive(PipelineCommand):
    """Send dead letters back to the queues that they came from."""

    job_name = "redrive"


class RunMigrate(PipelineCommand):
    """Move many queues to another pool, or move or copy them to another store."""

    job_name = "migrate"


class RunAudit(PipelineCommand):
    """Compare an archive with the live queues: what is missing, double or changed."""

    job_name = "audit"
