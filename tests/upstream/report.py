# SPDX-License-Identifier: Apache-2.0
"""The outcome of a run: gathered from its processes, written to a file, judged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PASS, FAIL, SKIP = "pass", "fail", "skip"


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    outcome: str
    seconds: float = 0.0
    #: The last line of the reason.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SuiteReport:
    target: str
    suite: str
    zaqar: str
    seconds: float
    tests: dict[str, CaseOutcome]
    #: Test -> its complete text when it failed.
    texts: dict[str, str]

    @property
    def counts(self) -> dict[str, int]:
        return {"run": len(self.tests), **Counter(each.outcome for each in self.tests.values())}

    def wrong(self, inapplicable: Collection[str]) -> dict[str, CaseOutcome]:
        """Returns the tests that did not pass, but should."""
        return {
            name: ending
            for name, ending in self.tests.items()
            if ending.outcome != PASS and name not in inapplicable
        }

    def needless(self, inapplicable: Collection[str]) -> list[str]:
        """Returns the tests that are listed as inapplicable, but pass."""
        return [
            name
            for name, ending in self.tests.items()
            if ending.outcome == PASS and name in inapplicable
        ]

    def write(self, folder: Path) -> Path:
        """Writes the outcomes to a file, and the texts next to it; returns the first path."""
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.target}-{self.suite}-{self.zaqar}".replace(":", ".")
        document = asdict(self) | {"counts": self.counts}
        texts = document.pop("texts")
        path = folder / f"{name}.json"
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
        (folder / f"{name}.txt").write_text(
            "\n".join(f"{'=' * 70}\n{test}\n{text}" for test, text in sorted(texts.items()))
        )
        return path


def gather(target: str, suite: str, seconds: float, results: Iterable[Path]) -> SuiteReport:
    """Merges the results of all processes; planned tests without an outcome have failed."""
    lines = [line for path in results if path.exists() for line in _lines(path)]
    plans = [line for line in lines if "planned" in line]
    tests = {
        test: CaseOutcome(FAIL, reason="did not end") for plan in plans for test in plan["planned"]
    }
    texts = {}
    for line in lines:
        if "test" in line:
            reason = (line["text"].strip().splitlines() or [""])[-1].strip()
            tests[line["test"]] = CaseOutcome(line["outcome"], line["seconds"], reason)
            texts[line["test"]] = line["text"]
    return SuiteReport(
        target,
        suite,
        plans[0]["zaqar"] if plans else "unknown",
        round(seconds, 1),
        tests,
        {test: text for test, text in texts.items() if tests[test].outcome == FAIL},
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
