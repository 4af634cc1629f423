# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis cluster plan``: tables, JSON, refusals, and the examples of the document."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.conventions.files import ROOT
from tests.support.command_line import CommandLine
from zaqar_redis.sizing.plan import ClusterLoad, plan, rows

#: A command of the document, and what it prints.
_EXAMPLE = re.compile(r"^    \$ zaqar-redis (cluster plan .+)\n((?:    [|+].+\n)+)", re.M)
#: A row of the document's table of sizes: the options of a plan, and the cells behind them.
_SIZE = re.compile(r"^\|[^|]+\| `(--[^`]+)` \| (.+) \|$", re.M)


def test_plan_is_that_of_the_load(in_process: CommandLine) -> None:
    words = ("cluster", "plan", "--messages", "1e9/day", "--queues", "1000000", "--fan-out", "3")
    load = ClusterLoad(messages=1e9 / 86_400, queues=1_000_000, fan_out=3)
    shown = in_process.shown(*words)
    assert [tuple(row.values()) for row in shown] == [tuple(row) for row in rows(load, plan(load))]
    assert list(shown[0]) == ["what", "needed", "unit", "because"]


@pytest.mark.parametrize("rate", ["2000", "2000/s", "120000/min", "7.2e6/h", "172800000/day"])
def test_rate_has_any_unit_of_time(in_process: CommandLine, rate: str) -> None:
    same = in_process.shown("cluster", "plan", "--messages", "2000")
    assert in_process.shown("cluster", "plan", "--messages", rate) == same


def test_warnings_go_to_stderr_and_the_plan_to_stdout(in_process: CommandLine) -> None:
    done = in_process.run("cluster", "plan", "--messages", "1e6", "--replicas", "0")
    assert done.returncode == 0
    assert "1 queues cannot use" in done.stderr
    assert "Without replicas" in done.stderr
    assert "primaries" in done.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "there is no load: give --messages, --publications, --sockets or --long-polls"),
        (("--messages", "5", "--size", "1e9"), "--size: it must be 1 to 536870912"),
        (("--messages", "-5"), "--messages: it must be 0 to"),
        (("--messages", "5", "--batch", "1000"), "--batch: it must be 1 to 100"),
        (("--messages", "5", "--memory", "8"), "--memory: a Redis with maxmemory 16 GB"),
    ],
)
def test_bad_load_is_refused(in_process: CommandLine, words: tuple[str, ...], text: str) -> None:
    assert text in in_process.refused("cluster", "plan", *words)


def test_long_polls_alone_are_a_load(in_process: CommandLine) -> None:
    shown = in_process.shown("cluster", "plan", "--long-polls", "50000")
    needed = {row["what"]: row["needed"] for row in shown}
    assert needed["sockets of a worker"] == 10_000
    assert needed["workers"] >= 5


def test_whole_number_may_have_an_exponent(in_process: CommandLine) -> None:
    same = in_process.shown("cluster", "plan", "--messages", "5", "--queues", "1000000")
    assert in_process.shown("cluster", "plan", "--messages", "5", "--queues", "1e6") == same


@pytest.mark.parametrize("number", ["many", "1.5", "inf", "nan"])
def test_what_is_no_whole_number_is_a_usage_error(in_process: CommandLine, number: str) -> None:
    words = ("cluster", "plan", "--messages", "5", "--queues", number)
    assert f'"{number}" is no whole number' in in_process.misused(*words)


@pytest.mark.parametrize("rate", ["many", "5/year", "/s", "5/s/s"])
def test_what_is_no_rate_is_a_usage_error(in_process: CommandLine, rate: str) -> None:
    assert "argument --messages" in in_process.misused("cluster", "plan", "--messages", rate)


def test_examples_of_the_document_print_what_it_shows(in_process: CommandLine) -> None:
    examples = _EXAMPLE.findall((ROOT / "doc/scale.md").read_text())
    assert len(examples) == 3
    for command, output in examples:
        assert in_process.done(*shlex.split(command)) == re.sub(r"^    ", "", output, flags=re.M)


def test_sizes_of_the_document_are_those_of_its_commands(in_process: CommandLine) -> None:
    sizes = _SIZE.findall((ROOT / "doc/scale.md").read_text())
    assert len(sizes) == 7
    for options, cells in sizes:
        row = {row["what"]: row for row in in_process.shown("cluster", "plan", *options.split())}
        needed = [
            row["workers"]["needed"],
            _cores(row["workers"]["because"]),
            row["memory of workers"]["needed"],
            row["primaries"]["needed"],
            _cores(row["primaries"]["because"]),
            row["data of a primary"]["needed"],
            row["maxmemory"]["needed"],
        ]
        assert [float(cell) for cell in cells.split("|")] == needed


def _cores(because: str) -> float:
    return float(because.partition(" cores")[0].rpartition(" ")[2].lstrip("("))
