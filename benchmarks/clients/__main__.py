# SPDX-License-Identifier: Apache-2.0
"""Compares clients of queues, and frameworks for jobs, in turns: rates, and CPU time.

    python3 -m venv peers
    peers/bin/pip install -r benchmarks/clients/requirements.txt
    python -m benchmarks.clients --python peers/bin/python

queues: a client sends messages of 150 bytes of JSON, and then receives and acknowledges them, one
after the other, or 32 at a time.  jobs: it posts jobs so, and then workers do them, as they are
started without options; each writes a byte to a file.  CPU is that of all processes of a side, for
each message.  Servers run on loopback, and write to files.  What is not installed is named, and
left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.clients.brokers import BROKERS, RunningServer
from benchmarks.clients.measuring import Cost, Round
from benchmarks.support.program import MeasurePart, PartsProgram
from benchmarks.support.rounds import in_turns, print_progress
from zaqar_redis.benchmarks import report

_TOGETHER = (1, 32)
_JOBS = "benchmarks.clients.jobs"


class ComparedClient(msgspec.Struct, frozen=True):
    label: str
    #: a key of `BROKERS`
    broker: str
    #: a key of `queues.CLIENTS`, or a module of `jobs`
    client: str
    #: the module that must be installed
    needs: str
    #: the command of its workers, without `python -m`
    workers: tuple[str, ...] = ()


PARTS: Mapping[str, tuple[ComparedClient, ...]] = {
    "queues": (
        ComparedClient("zaqar-redis", "zaqar", "Zaqar", "aiohttp"),
        ComparedClient("RabbitMQ, aio-pika", "rabbitmq", "RabbitMQ", "aio_pika"),
        ComparedClient("NATS JetStream, nats-py", "nats", "Nats", "nats"),
        ComparedClient("beanstalkd, greenstalk", "beanstalkd", "Beanstalkd", "greenstalk"),
        ComparedClient("Redis streams, redis-py", "redis", "RedisStreams", "redis"),
    ),
    "jobs": (
        ComparedClient(
            "zaqar-redis, Worker",
            "zaqar",
            "zaqar",
            "aiohttp",
            ("zaqar_redis_client.command", f"{_JOBS}.zaqar:worker"),
        ),
        *(
            ComparedClient(
                f"dramatiq on {name}",
                broker,
                "on_dramatiq",
                "dramatiq",
                ("dramatiq", f"{_JOBS}.on_dramatiq"),
            )
            for name, broker in (("zaqar-redis", "zaqar"), ("Redis", "redis"))
        ),
        ComparedClient(
            "rq",
            "redis",
            "on_rq",
            "rq",
            ("rq.cli", "worker", "{BENCHMARK_QUEUE}", "--url", "{BENCHMARK_ADDRESS}"),
        ),
        ComparedClient("arq", "redis", "on_arq", "arq", ("arq", f"{_JOBS}.on_arq.WorkerSettings")),
        ComparedClient(
            "Celery on Redis",
            "redis",
            "on_celery",
            "celery",
            ("celery", "-A", f"{_JOBS}.on_celery", "worker"),
        ),
    ),
}


class Results:
    """The costs of each act, by part, label, and messages at a time."""

    def __init__(self) -> None:
        self._costs: dict[str, dict[tuple[str, int], list[list[Cost]]]] = {
            part: {} for part in PARTS
        }
        self.left_out: list[str] = []

    def add(self, part: str, label: str, together: int, costs: list[Cost]) -> None:
        self._costs[part].setdefault((label, together), []).append(costs)
        rates = ", ".join(f"{cost.rate:.0f}/s" for cost in costs)
        print_progress(f"{label}, {together} at a time: {rates}")

    def __bool__(self) -> bool:
        return any(self._costs.values())

    def findings(self) -> list[report.WorkloadResult]:
        return []

    def tables(self) -> list[str]:
        found = []
        for part, costs in self._costs.items():
            sent, done = ("sent", "taken") if part == "queues" else ("posted", "done")
            sides = ("client", "servers"), ("client" if part == "queues" else "workers", "servers")
            head = [part, "at a time"]
            for act, both in zip((sent, done), sides, strict=True):
                head += [f"{act}/s", *(f"{side}, µs" for side in both)]
            rows = [_row(label, together, rounds) for (label, together), rounds in costs.items()]
            found.append(report.table(head, rows) if rows else "")
        if self.left_out:
            found.append(f"Left out: {'; '.join(self.left_out)}.")
        return found


def _row(label: str, together: int, rounds: list[list[Cost]]) -> list[str]:
    row = [label, str(together)]
    for act in zip(*rounds, strict=True):
        columns = zip(*((cost.rate, cost.client, cost.servers) for cost in act), strict=True)
        row += [f"{median(values):.0f}" for values in columns]
    return row + [""] * (8 - len(row))


def _missing(contender: ComparedClient, python: str) -> str | None:
    program, _ = BROKERS[contender.broker]
    if shutil.which(program) is None:
        return program
    imported = [python, "-c", f"import {contender.needs}"]
    if subprocess.run(imported, capture_output=True, check=False).returncode:
        return f"the module {contender.needs}"
    return None


class Comparison:
    def __init__(
        self, given: argparse.Namespace, stack: contextlib.ExitStack, results: Results
    ) -> None:
        self._given, self._stack, self._results = given, stack, results
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-clients-")))
        self._servers: dict[str, RunningServer] = {}

    def measure(self, part: str) -> None:
        here = []
        for contender in PARTS[part]:
            if missing := _missing(contender, self._given.python):
                self._results.left_out.append(f"{contender.label} ({missing} is missing)")
                continue
            here.append(contender)
            if contender.broker not in self._servers:
                _, start = BROKERS[contender.broker]
                self._servers[contender.broker] = self._stack.enter_context(start())
        for _, order in in_turns(here, self._given.rounds):
            for contender in order:
                self._round(part, contender)

    def _round(self, part: str, contender: ComparedClient) -> None:
        server, given = self._servers[contender.broker], self._given
        here = Round(given.python, server, given.seconds, self._folder)
        posted = 0
        for together in _TOGETHER:
            acts = ("send",) if contender.workers else ("send", "take")
            costs = here.acts(contender.client, together, *acts)
            posted += costs[0].count
            if contender.workers and together == _TOGETHER[-1]:
                costs.append(here.work(contender.workers, posted))
            self._results.add(part, contender.label, together, costs)


def main() -> int:
    program = PartsProgram("clients", __doc__, tuple(PARTS))
    program.add_seconds(1)
    program.add(
        "--python",
        default=sys.executable,
        metavar="PROGRAM",
        help="which has the clients' libraries (this one)",
    )
    results = Results()

    def prepare(
        given: argparse.Namespace, stack: contextlib.ExitStack
    ) -> Mapping[str, MeasurePart]:
        given.python = os.path.abspath(given.python)
        comparison = Comparison(given, stack, results)
        return {part: partial(comparison.measure, part) for part in PARTS}

    return program.run(prepare, results)


if __name__ == "__main__":
    raise SystemExit(main())
