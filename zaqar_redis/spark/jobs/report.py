# SPDX-License-Identifier: Apache-2.0
"""The report of a job: counts that add up, as text and as JSON."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class JobReport:
    job: str
    #: what was read, and under it the outcomes: the parts add up to the total
    counts: Mapping[str, int | Mapping[str, int]]
    #: that the job took, in a session of Spark
    seconds: float
    #: other results: targets, offsets, findings
    details: Mapping[str, Any] = field(default_factory=dict)
    #: False: the user must act on something; the command exits with 1
    good: bool = True
    #: the signal that ended it early
    stopped_by: signal.Signals | None = None
    #: that Spark took to start before the job; None: a session was there
    spark_seconds: float | None = None

    @property
    def code(self) -> int:
        """Exit code of the command; after a signal, as a shell sets it."""
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        return int(not self.good)

    def as_json(self) -> str:
        shown = asdict(self) | {"stopped_by": self.stopped_by and self.stopped_by.name}
        return json.dumps(shown, indent=2, sort_keys=False, default=str)

    def as_text(self) -> str:
        ended = f"stopped by {self.stopped_by.name} after" if self.stopped_by else "done in"
        first = f"{self.job}: {ended} {self.seconds:.1f} s"
        if self.spark_seconds is not None:
            first += f"; Spark started in {self.spark_seconds:.1f} s"
        lines = [first]
        lines += _lines(self.counts, "  ")
        lines += _lines(self.details, "  ")
        return "\n".join(lines)


def _lines(things: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    for name, value in things.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{name}:")
            lines += _lines(value, indent + "  ")
        else:
            shown = f"{value:,}".replace(",", " ") if isinstance(value, int) else value
            lines.append(f"{indent}{name}: {shown}")
    return lines
