# SPDX-License-Identifier: Apache-2.0
"""Figures of two contenders, round by round, and the ratio of the second to the first."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.support.rounds import BenchmarkTarget, figures
from zaqar_redis.benchmarks import report

_HEAD = (
    *("part", "measured", "first", "second"),
    *("second : first", "least", "greatest", "target", "is"),
)


class PairedFigures:
    """The rows of all parts, as far as a run has come."""

    def __init__(self) -> None:
        self._rows: list[list[str]] = []

    def __bool__(self) -> bool:
        return bool(self._rows)

    def tables(self) -> list[str]:
        return [report.table(_HEAD, self._rows)]

    def findings(self) -> Sequence[report.WorkloadResult]:
        return []

    def add(
        self,
        part: str,
        what: str,
        pair: Sequence[Sequence[float]],
        target: tuple[str, float] | None = None,
    ) -> None:
        """Adds a row.

        *pair*: values of the first and of the second contender, round by round.  *target*: a sign
        and a limit for the median of the ratios.
        """
        first, second = pair
        ratios = [later / earlier for earlier, later in zip(first, second, strict=False) if earlier]
        if not ratios:  # rounds so short that nothing was counted
            return
        medians = [f"{report.spread(each).median:.1f}" for each in (first, second)]
        self._rows.append([part, what, *medians, *figures(ratios, 2), *_judged(ratios, target)])


def _judged(ratios: Sequence[float], target: tuple[str, float] | None) -> tuple[str, str]:
    if target is None:
        return "", ""
    limit = BenchmarkTarget("ratio", *target)
    met = limit.is_met(report.spread(ratios).median)
    return f"{limit.sign} {limit.limit:g}", "met" if met else "missed"
