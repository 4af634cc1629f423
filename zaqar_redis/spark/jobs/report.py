# SPDX-License-Identifier: Apache-2.0
"""What a job says at its end: counts that add up, for people and for programs."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Report:
    job: str
    #: what went in, and under it what became of it: the parts make up the whole
    counts: Mapping[str, int | Mapping[str, int]]
    seconds: float
    #: whatever else is worth to know: targets, offsets, findings
    details: Mapping[str, Any] = field(default_factory=dict)
    #: False: something is left that somebody must see to; the command exits with 1
    good: bool = True
    #: what ended it before it was done
    stopped_by: signal.Signals | None = None

    @property
    def code(self) -> int:
        """What a command exits with; after a signal, as a shell has it."""
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        return int(not self.good)

    def as_json(self) -> str:
        shown = asdict(self) | {"stopped_by": self.stopped_by and self.stopped_by.name}
        return json.dumps(shown, indent=2, sort_keys=False, default=str)

    def as_text(self) -> str:
        ended = f"stopped by {self.stopped_by.name} after" if self.stopped_by else "done in"
        lines = [f"{self.job}: {ended} {self.seconds:.1f} s"]
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
