# SPDX-License-Identifier: Apache-2.0
"""The report of a comparison of buses: tables, JSON, and a plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.bus.rounds import BusSample, RelaySample
from benchmarks.support.program import about_the_run
from benchmarks.support.rounds import figures
from zaqar_redis.benchmarks.report import spread, table

LIMITATIONS = (
    "publishers send as fast as they can, on the same machine as broker and subscribers: the "
    "rates show what a message costs in CPU, and nothing about a network",
    "with more processes than cores, all of them share the cores, and a contender that leaves "
    "more of them to its subscribers is ahead",
    "publishers wait for their broker at most, not for subscribers: what these have not received "
    "when the publishers end, they may receive later, up to 10 s; what has not arrived then counts "
    "as lost",
)
RELAY_LIMITATION = (
    "the relay's publisher sends what is due every millisecond; a message's time begins when it "
    "is published, so a publisher that is late delays messages without adding to their latency"
)


class BusRounds(msgspec.Struct, frozen=True):
    """The rounds of a contender with a number of clients."""

    contender: str
    clients: int
    samples: list[BusSample]

    def median(self, of: Callable[[BusSample], float]) -> float:
        return median(map(of, self.samples))


class RelayRounds(msgspec.Struct, frozen=True):
    contender: str
    samples: list[RelaySample]


class BusReport(msgspec.Struct, frozen=True):
    command: str
    machine: Mapping[str, str]
    throughput: Sequence[BusRounds]
    relay: Sequence[RelayRounds]
    #: limitations of the figures
    notes: Sequence[str]
    #: rounds without figures, and why
    failures: Sequence[str]


def text(found: BusReport) -> str:
    parts = [_throughput(found.throughput), _cpu(found.throughput), _relay(found.relay)]
    about = about_the_run(found.command, found.machine, [*found.notes, *found.failures])
    return "\n\n".join(part for part in (*parts, about) if part)


def encode(found: BusReport) -> bytes:
    """Returns JSON: the report, with the median, minimum and maximum of each rate."""
    document = msgspec.to_builtins(found)
    for encoded, rounds in zip(document["throughput"], found.throughput, strict=True):
        encoded["per_client"] = msgspec.to_builtins(
            spread([sample.per_client for sample in rounds.samples])
        )
        encoded["total"] = msgspec.to_builtins(spread([sample.total for sample in rounds.samples]))
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def _throughput(every: Sequence[BusRounds]) -> str:
    """Returns messages a second: of a client, of all, and published."""
    rows = [
        [
            rounds.contender,
            str(rounds.clients),
            *figures([sample.per_client for sample in rounds.samples], 0),
            f"{rounds.median(lambda sample: sample.total):.0f}",
            f"{rounds.median(lambda sample: sample.published):.0f}",
            f"{100 * max(sample.lost for sample in rounds.samples):.1f} %",
            str(sum(sample.gaps for sample in rounds.samples)),
        ]
        for rounds in every
    ]
    head = ["contender", "clients", "median msg/s per client", "min", "max", "received msg/s"]
    return table([*head, "published msg/s", "lost", "gaps"], rows) if rows else ""


def _cpu(every: Sequence[BusRounds]) -> str:
    """Returns seconds of CPU per million messages that are received."""
    rows = []
    for rounds in every:
        parts = [
            rounds.median(lambda sample: sample.cpu_publishers),
            rounds.median(lambda sample: sample.cpu_subscribers),
            rounds.median(lambda sample: sample.cpu_broker),
        ]
        costs = [f"{value:.2f}" for value in (*parts, sum(parts))]
        rows.append([rounds.contender, str(rounds.clients), *costs])
    head = ["CPU s per million received", "clients", "publishers", "subscribers", "broker", "all"]
    return table(head, rows) if rows else ""


def _relay(every: Sequence[RelayRounds]) -> str:
    rows = [
        [
            rounds.contender,
            f"{median(sample.rate for sample in rounds.samples):.0f}",
            f"{median(sample.p50 for sample in rounds.samples):.2f}",
            f"{median(sample.p99 for sample in rounds.samples):.2f}",
            f"{max(sample.p99 for sample in rounds.samples):.2f}",
            f"{100 * max(sample.lost for sample in rounds.samples):.1f} %",
        ]
        for rounds in every
    ]
    head = ["relay from node to node", "msg/s", "p50 ms", "p99 ms", "highest p99 ms", "lost"]
    return table(head, rows) if rows else ""


def plot(found: BusReport, file: Path) -> None:
    """Draws the median rate of a client over the number of clients, a line for each contender."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for contender in dict.fromkeys(rounds.contender for rounds in found.throughput):
        points = [rounds for rounds in found.throughput if rounds.contender == contender]
        clients = [rounds.clients for rounds in points]
        rates = [rounds.median(lambda sample: sample.per_client) for rounds in points]
        axes.plot(clients, rates, marker="o", label=contender)
    axes.set(xlabel="clients", ylabel="messages a second per client, median", yscale="log")
    axes.set_xticks(sorted({rounds.clients for rounds in found.throughput}))
    axes.grid(visible=True, which="both", alpha=0.3)
    figure.legend(loc="outside right upper")
    figure.savefig(file)
