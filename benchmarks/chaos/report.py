# SPDX-License-Identifier: Apache-2.0
"""The report of a run of chaos: tables, JSON, and a picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.chaos.checker import ChaosFinding
from benchmarks.chaos.history import Act, ActOutcome
from benchmarks.chaos.schedule import PlannedFault
from benchmarks.support.program import about_the_run
from zaqar_redis.benchmarks.report import table

if TYPE_CHECKING:  # it takes long to import
    from matplotlib.axes import Axes

#: Seconds of a point of the rates.
_BIN_SECONDS = 0.5
#: Of a row of the picture, more or less: so the names of faults do not overlap.
_ROW_SECONDS = 120
#: Findings that the text shows, of each rule.
_SHOWN = 5
#: What clients ask for; what they receive is no act of theirs.
_ASKED = ("post", "claim", "delete", "release", "renew", "publish")


class AppliedFault(msgspec.Struct, frozen=True):
    """A fault that has happened; times are seconds of the monotonic clock."""

    planned: PlannedFault
    begin: float
    #: when it was ended
    over: float
    #: when the store was well again, with all replicas
    settled: float
    #: how often another server became a primary
    replacements: int = 0


class FaultRow(msgspec.Struct, frozen=True):
    """A fault; times are seconds from the first act."""

    what: str
    at: float
    seconds: float
    settled: float
    #: the longest time without an acknowledged act, in the place that missed it longest
    away: float
    place: str


class ActRow(msgspec.Struct, frozen=True):
    kind: str
    ok: int
    unknown: int
    refused: int
    #: that were sent more than once
    repeated: int
    #: seconds
    slowest: float


class ChaosReport(msgspec.Struct, frozen=True):
    command: str
    machine: Mapping[str, str]
    topology: str
    seed: int
    ack_replicas: int
    plan: Sequence[PlannedFault]
    faults: Sequence[FaultRow]
    acts: Sequence[ActRow]
    #: acknowledged acts a second by kind, each half second
    rates: Mapping[str, Sequence[float]]
    findings: Sequence[ChaosFinding]
    #: harmless, of processes that died
    leftovers: int
    notes: Sequence[str]

    @property
    def violations(self) -> list[ChaosFinding]:
        return [each for each in self.findings if not each.is_excused]


def plan_text(topology: str, seed: int, plan: Sequence[PlannedFault]) -> str:
    rows = [[f"{each.at:.1f}", f"{each.seconds:.1f}", str(each.what)] for each in plan]
    schedule = table(["at s", "for s", "fault"], rows) if rows else "No fault fits into the time."
    return f"Schedule of {topology}, seed {seed}:\n\n{schedule}\n\n"


def act_rows(acts: Sequence[Act]) -> list[ActRow]:
    rows = []
    for kind in (*_ASKED, "move"):
        of_kind = [act for act in acts if act.kind == kind]
        if not of_kind and kind not in _ASKED:
            continue  # nothing is moved without pools
        counts = Counter(act.outcome for act in of_kind)
        rows.append(
            ActRow(
                kind,
                counts[ActOutcome.OK],
                counts[ActOutcome.UNKNOWN],
                counts[ActOutcome.REFUSED],
                repeated=sum(act.attempts > 1 for act in of_kind),
                slowest=max((act.end - act.begin for act in of_kind if act.is_ok), default=0.0),
            )
        )
    return rows


def fault_rows(faults: Sequence[AppliedFault], acts: Sequence[Act]) -> list[FaultRow]:
    """Returns a row for each fault; *acts* in the order in which they began."""
    answered: dict[str, list[float]] = defaultdict(list)
    for act in acts:
        if act.is_ok and act.kind in _ASKED:
            answered[act.place].append(act.end)
    if not answered:
        return []
    last = max(each for times in answered.values() for each in times)
    until = [*(each.begin for each in faults[1:]), last]
    rows = []
    for fault, end in zip(faults, until, strict=False):
        away, place = max(
            (longest_gap(sorted(times), fault.begin, end), place)
            for place, times in answered.items()
        )
        begin = fault.begin - acts[0].begin
        lasted, settled = fault.over - fault.begin, fault.settled - fault.begin
        rows.append(FaultRow(str(fault.planned.what), begin, lasted, settled, away, place))
    return rows


def longest_gap(times: Sequence[float], begin: float, end: float) -> float:
    """Returns the longest time without one of the *times*, from *begin* to *end*."""
    inside = [begin, *(time for time in times if begin < time < end), end]
    return max(after - before for before, after in pairwise(inside))


def rates(acts: Sequence[Act]) -> dict[str, list[float]]:
    """Returns acknowledged acts a second, for each half second."""
    if not acts:
        return {}
    begin = acts[0].begin
    done = [act for act in acts if act.is_ok and act.kind in _ASKED]
    count = int((max(act.end for act in done) - begin) / _BIN_SECONDS) + 1 if done else 0
    found = {kind: [0.0] * count for kind in _ASKED}
    for act in done:
        found[act.kind][int((act.end - begin) / _BIN_SECONDS)] += 1 / _BIN_SECONDS
    return found


def text(found: ChaosReport) -> str:
    promise = f"ack_replicas = {found.ack_replicas}, seed {found.seed}"
    parts = [
        f"Chaos on {found.topology}, {promise}.",
        _acts(found.acts),
        _faults(found.faults),
        _findings(found),
        about_the_run(found.command, found.machine, found.notes),
    ]
    return "\n\n".join(parts)


def _acts(rows: Sequence[ActRow]) -> str:
    head = ["act", "acknowledged", "unknown", "refused", "repeated", "slowest s"]
    return table(
        head,
        [
            [
                row.kind,
                *(str(count) for count in (row.ok, row.unknown, row.refused, row.repeated)),
                f"{row.slowest:.2f}",
            ]
            for row in rows
        ],
    )


def _faults(rows: Sequence[FaultRow]) -> str:
    head = ["fault", "at s", "for s", "well after s", "away s", "place"]
    return (
        table(
            head,
            [
                [
                    row.what,
                    *(f"{value:.1f}" for value in (row.at, row.seconds, row.settled)),
                    f"{row.away:.2f}",
                    row.place,
                ]
                for row in rows
            ],
        )
        if rows
        else "No faults."
    )


def _findings(found: ChaosReport) -> str:
    counts = Counter((each.rule, each.is_excused) for each in found.findings)
    lines = [f"Violations: {len(found.violations)}. Leftovers in the store: {found.leftovers}."]
    for (rule, is_excused), count in counts.items():
        how = "expected: some replicas had not confirmed" if is_excused else "VIOLATION"
        lines.append(f"{rule}: {count} ({how})")
        shown = [
            each for each in found.findings if (each.rule, each.is_excused) == (rule, is_excused)
        ]
        lines += [f"  {each.place}: {each.what}" for each in shown[:_SHOWN]]
    return "\n".join(lines)


def encode(found: ChaosReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(found)) + b"\n"


def plot(found: ChaosReport, file: Path) -> None:
    """Draws the rates of acknowledged acts over time, with the faults marked."""
    from matplotlib.figure import Figure

    times = {
        kind: [number * _BIN_SECONDS for number in range(len(values))]
        for kind, values in found.rates.items()
    }
    end = max((each[-1] for each in times.values() if each), default=0.0) or _BIN_SECONDS
    rows = max(1, round(end / _ROW_SECONDS))
    top = 1.05 * max((max(values, default=0.0) for values in found.rates.values()), default=0.0)
    figure = Figure(figsize=(12, 1 + 4 * rows), layout="constrained")
    for row, axes in enumerate(figure.subplots(rows, squeeze=False, sharey=True)[:, 0]):
        for kind, values in found.rates.items():
            axes.plot(times[kind], values, label=kind, linewidth=1)
        begin, until = row * end / rows, (row + 1) * end / rows
        axes.set(ylabel="acknowledged acts a second", xlim=(begin, until), ylim=(0, top))
        _mark_faults(axes, [each for each in found.faults if begin <= each.at < until])
    axes.set_xlabel("seconds")
    figure.suptitle(f"{found.topology}, seed {found.seed}: faults in red, seconds away")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    figure.savefig(file)


def _mark_faults(axes: Axes, faults: Sequence[FaultRow]) -> None:
    top = axes.get_ylim()[1]
    for fault in faults:
        axes.axvspan(fault.at, fault.at + fault.seconds, color="tab:red", alpha=0.15)
        axes.text(
            *(fault.at, top, f"{fault.what} {fault.away:.1f} s"),
            rotation=90,
            verticalalignment="top",
            fontsize=7,
        )
