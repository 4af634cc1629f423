# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis pipeline …``: the jobs on Spark.

These commands are there where the extra ``spark`` is installed.
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

from zaqar_redis.cli.session import Refused, Targeted, reachable
from zaqar_redis.cli.target import URI
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.running import Job


class Pipeline(Targeted):
    """Base of the jobs' commands."""

    job_name: ClassVar[str]

    @property
    def job(self) -> Job:
        return cast(Job, importlib.import_module(f"zaqar_redis.spark.jobs.{self.job_name}"))

    def get_description(self) -> str:
        return self.job.__doc__ or ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.job.arguments(parser)
        return parser

    def where(self, parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
        running.arguments(parser)
        files = parser.add_argument_group("where, without --storage")
        files.add_argument(
            "--profile", metavar="NAME", help="the store of this profile (that in use)"
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
        for talkative in ("zaqar_redis", "py4j"):  # a command says what was asked for
            logging.getLogger(talkative).setLevel(logging.WARNING)
        with contextlib.ExitStack() as stack:
            if self.needs_target(parsed_args) and not self.target.typed:
                # Not as an option: query plans show those, and it may have a password.
                os.environ[URI] = stack.enter_context(reachable(self.target))
            try:
                report = running.do(self.job, parsed_args)
            except running.Refused as error:
                raise Refused(str(error)) from error
            except (PySparkException, Py4JError) as error:
                raise Refused(running.why(error)) from error
        text = report.as_json() if parsed_args.json else report.as_text()
        self.app.stdout.write(f"{text}\n")
        self._code = report.code


class Archive(Pipeline):
    job_name = "archive"


class Replay(Pipeline):
    job_name = "replay"


class Analytics(Pipeline):
    job_name = "analytics"

    def needs_target(self, parsed: argparse.Namespace) -> bool:
        return parsed.archive is None


class Redrive(Pipeline):
    job_name = "redrive"


class Migrate(Pipeline):
    job_name = "migrate"


class Audit(Pipeline):
    job_name = "audit"
