# SPDX-License-Identifier: Apache-2.0
"""Measured figures, and tables of them."""

from __future__ import annotations

import msgspec

from benchmarks.support.rounds import BenchmarkTarget, figures
from zaqar_redis.benchmarks import report


class Figure(msgspec.Struct, frozen=True):
    """One measured quantity, round by round."""

    part: str
    what: str
    unit: str
    #: None: the figure is only reported
    target: BenchmarkTarget | None
    values: list[float]


class Figures:
    """All figures of a run, as far as they were measured when it ends."""

    def __init__(self) -> None:
        self._figures: list[Figure] = []

    def figure(
        self, part: str, what: str, unit: str, target: tuple[str, float] | None = None
    ) -> list[float]:
        """Adds a figure; returns its list of values.  *target* is a sign and a limit."""
        limit = BenchmarkTarget(unit, *target) if target else None
        figure = Figure(part, what, unit, limit, [])
        self._figures.append(figure)
        return figure.values

    def __bool__(self) -> bool:
        return any(figure.values for figure in self._figures)

    def findings(self) -> list[report.WorkloadResult]:
        return []

    def tables(self) -> list[str]:
        """Returns Markdown tables: figures with a target, and the others."""
        return [self._targets(), self._untargeted()]

    def _targets(self) -> str:
        rows = [
            [
                *_row(figure),
                f"{figure.target.sign} {figure.target.limit:g}",
                "met" if figure.target.is_met(report.spread(figure.values).median) else "missed",
            ]
            for figure in self._figures
            if figure.target and figure.values
        ]
        return report.table([*_HEAD, "target", "is"], rows) if rows else ""

    def _untargeted(self) -> str:
        rows = [
            [*_row(figure), str(len(figure.values))]
            for figure in self._figures
            if figure.values and not figure.target
        ]
        return report.table([*_HEAD, "rounds"], rows) if rows else ""


_HEAD = ("part", "measured", "in", "median", "min", "max")


def _row(figure: Figure) -> list[str]:
    digits = 2 if report.spread(figure.values).median < 100 else 0
    return [figure.part, figure.what, figure.unit, *figures(figure.values, digits)]
