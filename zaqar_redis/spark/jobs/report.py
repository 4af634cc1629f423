# SPDX-License-Identifier: Apache-2.0
"""What a job says at its end: counts that add up, for people and for programs."""

from __future__ import annotations

import json
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

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=False, default=str)

    def as_text(self) -> str:
        lines = [f"{self.job}: done in {self.seconds:.1f} s"]
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
