# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis bench``: measure a Zaqar v2 service on this machine."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from functools import partial
from pathlib import Path

from zaqar_redis import errors
from zaqar_redis.benchmarks import report, run
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.benchmarks.workloads import WORKLOADS
from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import ShellCommand, bounded_int, check_folder

#: The command line as the report shows it, when another program has called this one.
_COMMAND_VARIABLE = "ZAQAR_REDIS_BENCH_COMMAND"
_INTERRUPTED = 130
_WORKLOADS = "\n".join(f"  {load.name:<14}{load.what}" for load in WORKLOADS.values())


class RunBenchmark(ShellCommand):
    """Measure a Zaqar v2 service, alone or against another one, round by round in turn.

    The load is heavy, so only loopback addresses are allowed. It uses queues and projects
    of its own and deletes them. The load generator is wrk, which must be installed (Debian:
    apt-get install wrk). Example:

        zaqar-redis bench --url http://127.0.0.1:8888 --workload post-1 --rounds 3
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.epilog = f"workloads:\n{_WORKLOADS}"
        add = parser.add_argument
        add("--url", required=True, help="the service, e.g. http://127.0.0.1:8888")
        add("--against", metavar="URL", help="another one, measured in turn with it")
        add(
            "--workload",
            action="append",
            nargs="+",
            default=[],
            metavar="NAME",
            help="what to run (all)",
        )
        number = bounded_int
        add("--rounds", type=number(1, 100), default=5, metavar="N", help="rounds of each (5)")
        add("--seconds", type=number(1, 60), default=3, metavar="S", help="length of a round (3)")
        add("--connections", type=number(2, 512), default=32, metavar="N", help="connections (32)")
        add(
            "--claimed",
            type=number(20, 200_000),
            default=20_000,
            metavar="N",
            help="messages claimed before claim-20000 and list-20000 (20000)",
        )
        add(
            "--preload",
            type=number(1000, 10_000_000),
            default=1_000_000,
            metavar="N",
            help="messages in the long queue of the deep workloads (1000000)",
        )
        add(
            "--floor",
            metavar="REDIS_URI",
            help="with post-1, also measure an empty handler that runs an empty script in this "
            "Redis",
        )
        add("--store", metavar="REDIS_URI", help="the store of --url, to measure its memory")
        add("--against-store", metavar="REDIS_URI", help="the store of --against, likewise")
        add(
            "--memory-messages",
            type=number(1000, 1_000_000),
            default=50_000,
            metavar="N",
            help="messages posted to measure memory (50000)",
        )
        add("--json", type=Path, metavar="FILE", help="also write all results to this file")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        options = vars(parsed_args)
        settings = run.BenchmarkSettings(
            workloads=run.select_workloads(
                [name for names in options["workload"] for name in names]
            ),
            **{
                name: options[name]
                for name in run.BenchmarkSettings.__struct_fields__
                if name in options
            },
        )
        if settings.against_store and not settings.against:
            raise errors.BadConfiguration("--against-store needs --against")
        check_folder("--json", parsed_args.json)
        command = os.environ.get(_COMMAND_VARIABLE) or shlex.join(["zaqar-redis", *sys.argv[1:]])
        progress = partial(print, file=sys.stderr, flush=True)
        try:
            found, is_complete = run.run_benchmark(settings, command, progress)
        except BenchmarkFailed as error:
            raise CommandFailed(str(error)) from error
        sys.stdout.write(report.text(found))  # first: writing the file may fail
        if parsed_args.json:
            parsed_args.json.write_bytes(report.encode(found))
        return 0 if is_complete else _INTERRUPTED
