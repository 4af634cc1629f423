# SPDX-License-Identifier: Apache-2.0
"""The findings: as Markdown that is readable as it stands, and as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from zaqar_redis.bench.load import Sample

#: Share of a core from which on the generator may be what limits the figure.
BUSY = 0.8


class Finding(msgspec.Struct, frozen=True):
    """One workload: its rounds, by contender."""

    name: str
    what: str
    unit: str
    samples: Mapping[str, Sequence[Sample]]

    def ratios(self, other: str) -> list[float]:
        """First contender to *other*, round by round."""
        first, *_ = self.samples.values()
        return [
            ours.rate / theirs.rate
            for ours, theirs in zip(first, self.samples[other], strict=False)
            if theirs.rate
        ]


class Report(msgspec.Struct, frozen=True):
    command: str
    machine: Mapping[str, str]
    findings: Sequence[Finding]
    #: bytes of Redis memory for a message of 150 bytes, by service
    memory: Mapping[str, float]
    #: what a reader of the figures must know
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


def encode(report: Report) -> bytes:
    """JSON: the report, and for each workload its rates and ratios summed up."""
    document = msgspec.to_builtins(report)
    for told, finding in zip(document["findings"], report.findings, strict=True):
        rows = finding.samples.items()
        told["rates"] = {label: _rates(samples) for label, samples in rows if samples}
        first, *others = finding.samples
        told["ratios"] = {
            f"{first} to {other}": msgspec.to_builtins(spread(ratios))
            for other in others
            if (ratios := finding.ratios(other))
        }
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def _rates(samples: Sequence[Sample]) -> dict[str, float]:
    return msgspec.to_builtins(spread([s.rate for s in samples]))  # type: ignore[no-any-return]  # a dict


def text(report: Report) -> str:
    parts = [_ratios(report.findings), _rates_table(report.findings)]
    if report.memory:
        parts.append(_memory(report.memory))
    facts = "; ".join(f"{name}: {value}" for name, value in report.machine.items())
    parts.append(f"Machine: {facts}.\n\nCommand: `{report.command}`")
    parts += [f"Note: {warning}." for warning in report.warnings]
    return "\n\n".join(part for part in parts if part) + "\n"


def _ratios(findings: Sequence[Finding]) -> str:
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


def _rates_table(findings: Sequence[Finding]) -> str:
    rows = []
    for finding in findings:
        for label, samples in finding.samples.items():
            if samples:
                rows.append([finding.name, label, *_row(samples), finding.unit])
    head = ["workload", "of", "median", "min", "max", "p50 ms", "p99 ms", "generator", "errors"]
    return table([*head, "unit"], rows) if rows else ""


def _row(samples: Sequence[Sample]) -> list[str]:
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
    """A Markdown table with straight columns; numbers to the right."""
    every = [head, *rows]
    widths = [max(len(row[place]) for row in every) for place in range(len(head))]
    right = [all(_is_number(row[place]) for row in rows) for place in range(len(head))]

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


def warnings(findings: Sequence[Finding]) -> list[str]:
    """What may be wrong with the figures."""
    found = []
    for finding in findings:
        for label, samples in finding.samples.items():
            share = max((sample.generator for sample in samples), default=0.0)
            if share > BUSY:
                found.append(
                    f"{finding.name}, {label}: the load generator used {100 * share:.0f} % of a "
                    "core and may be what limits the figure"
                )
            idle = sum(not sample.work for sample in samples)
            if idle:
                found.append(
                    f"{finding.name}, {label}: nothing was answered in {idle} of {len(samples)} "
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
