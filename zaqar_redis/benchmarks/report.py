# SPDX-License-Identifier: Apache-2.0
"""The report: as Markdown that is readable without rendering, and as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from zaqar_redis.benchmarks.load import LoadSample

#: Share of a core above which the load generator may be the bottleneck.
BUSY = 0.8


class WorkloadResult(msgspec.Struct, frozen=True):
    """The rounds of one workload, by contender."""

    name: str
    what: str
    unit: str
    samples: Mapping[str, Sequence[LoadSample]]

    def ratios(self, other: str) -> list[float]:
        """Returns the ratios of the rates of the first contender to *other*, by round."""
        first, *_ = self.samples.values()
        return [
            ours.rate / theirs.rate
            for ours, theirs in zip(first, self.samples[other], strict=False)
            if theirs.rate
        ]


class BenchmarkReport(msgspec.Struct, frozen=True):
    command: str
    machine: Mapping[str, str]
    findings: Sequence[WorkloadResult]
    #: bytes of Redis memory per message of 150 bytes, by service
    memory: Mapping[str, float]
    #: limitations of the figures
    warnings: Sequence[str]


class Spread(msgspec.Struct, frozen=True):
    median: float
    min: float
    max: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def machine() -> dict[str, str]:
    with_load = ", ".join(f"{load:.2f}" for load in os.getloadavg())
    return {
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load average at the start": with_load,
    }


def encode(report: BenchmarkReport) -> bytes:
    """Returns JSON: the report, with summaries of each workload's rates and ratios."""
    document = msgspec.to_builtins(report)
    for encoded, finding in zip(document["findings"], report.findings, strict=True):
        rows = finding.samples.items()
        encoded["rates"] = {label: _rates(samples) for label, samples in rows if samples}
        first, *others = finding.samples
        encoded["ratios"] = {
            f"{first} to {other}": msgspec.to_builtins(spread(ratios))
            for other in others
            if (ratios := finding.ratios(other))
        }
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def _rates(samples: Sequence[LoadSample]) -> dict[str, float]:
    return msgspec.to_builtins(spread([s.rate for s in samples]))  # type: ignore[no-any-return]  # a dict


def text(report: BenchmarkReport) -> str:
    parts = [_ratios(report.findings), _rates_table(report.findings)]
    if report.memory:
        parts.append(_memory(report.memory))
    facts = "; ".join(f"{name}: {value}" for name, value in report.machine.items())
    parts.append(f"Machine: {facts}.\n\nCommand: `{report.command}`")
    parts += [f"Note: {warning}." for warning in report.warnings]
    return "\n\n".join(part for part in parts if part) + "\n"


def _ratios(findings: Sequence[WorkloadResult]) -> str:
    rows = []
    for finding in findings:
        first, *others = finding.samples
        for other in others:
            if ratios := finding.ratios(other):
                found = spread(ratios)
                rows.append(
                    [
                        finding.name,
                        f"{first} : {other}",
                        *(f"{value:.2f}" for value in (found.median, found.min, found.max)),
                    ]
                )
    head = ["workload", "ratio of", "median", "min", "max"]
    return table(head, rows) if rows else ""


def _rates_table(findings: Sequence[WorkloadResult]) -> str:
    rows = []
    for finding in findings:
        for label, samples in finding.samples.items():
            if samples:
                rows.append([finding.name, label, *_row(samples), finding.unit])
    head = ["workload", "of", "median", "min", "max", "p50 ms", "p99 ms", "generator", "errors"]
    return table([*head, "unit"], rows) if rows else ""


def _row(samples: Sequence[LoadSample]) -> list[str]:
    rates = spread([sample.rate for sample in samples])
    return [
        *(_figure(rate) for rate in (rates.median, rates.min, rates.max)),
        f"{median([sample.p50 for sample in samples]):.2f}",
        f"{median([sample.p99 for sample in samples]):.2f}",
        f"{100 * median([sample.generator for sample in samples]):.0f} %",
        str(sum(sample.errors for sample in samples)),
    ]


def _figure(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.2f}"


def _memory(memory: Mapping[str, float]) -> str:
    first = next(iter(memory.values()))
    rows = [[label, f"{size:.0f}", f"{first / size:.2f}"] for label, size in memory.items()]
    return table(["Redis memory of", "bytes a message", "ratio to it"], rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table with padded columns; numbers are right-aligned."""
    every = [head, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    right = [all(_is_number(row[column]) for row in rows) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * (width - 1) + ":" if to_right else "-" * width
        for width, to_right in zip(widths, right, strict=True)
    ]
    return "\n".join([line(head), line(rule), *map(line, rows)])


def _is_number(cell: str) -> bool:
    return cell.removesuffix(" %").replace(".", "", 1).isdigit()


def warnings(findings: Sequence[WorkloadResult]) -> list[str]:
    """Returns texts about figures that may be wrong."""
    found = []
    for finding in findings:
        for label, samples in finding.samples.items():
            share = max((sample.generator for sample in samples), default=0.0)
            if share > BUSY:
                found.append(
                    f"{finding.name}, {label}: the load generator used {100 * share:.0f} % of a "
                    "core and may be the bottleneck"
                )
            idle = sum(not sample.work for sample in samples)
            if idle:
                found.append(
                    f"{finding.name}, {label}: no request succeeded in {idle} of {len(samples)} "
                    "rounds; ratios leave those out"
                )
            if any(sample.errors for sample in samples):
                found.append(f"{finding.name}, {label}: some requests failed")
            if any(sample.dry for sample in samples):
                found.append(
                    f"{finding.name}, {label}: the messages ran out before the time in "
                    f"{sum(sample.dry for sample in samples)} of {len(samples)} rounds; "
                    "those count up to then"
                )
    return found
