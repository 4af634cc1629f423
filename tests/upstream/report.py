# SPDX-License-Identifier: Apache-2.0
"""How a run ended: gathered from its processes, written to a file, judged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PASS, FAIL, SKIP = "pass", "fail", "skip"


@dataclass(frozen=True, slots=True)
class Ending:
    outcome: str
    seconds: float = 0.0
    #: The last line of why.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    target: str
    suite: str
    zaqar: str
    seconds: float
    tests: dict[str, Ending]
    #: Test -> everything that it said when it failed.
    texts: dict[str, str]

    @property
    def counts(self) -> dict[str, int]:
        return {"run": len(self.tests), **Counter(each.outcome for each in self.tests.values())}

    def wrong(self, inapplicable: Collection[str]) -> dict[str, Ending]:
        """Tests that did not pass, but should."""
        return {
            name: ending
            for name, ending in self.tests.items()
            if ending.outcome != PASS and name not in inapplicable
        }

    def needless(self, inapplicable: Collection[str]) -> list[str]:
        """Tests that are listed, and pass all the same."""
        return [
            name
            for name, ending in self.tests.items()
            if ending.outcome == PASS and name in inapplicable
        ]

    def write(self, folder: Path) -> Path:
        """Write the endings to a file, and the texts beside it; returns the first."""
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


def gather(target: str, suite: str, seconds: float, results: Iterable[Path]) -> Report:
    """One report from what each process wrote; tests that did not end have failed."""
    lines = [line for path in results if path.exists() for line in _lines(path)]
    plans = [line for line in lines if "planned" in line]
    tests = {test: Ending(FAIL, reason="did not end") for plan in plans for test in plan["planned"]}
    texts = {}
    for line in lines:
        if "test" in line:
            reason = (line["text"].strip().splitlines() or [""])[-1].strip()
            tests[line["test"]] = Ending(line["outcome"], line["seconds"], reason)
            texts[line["test"]] = line["text"]
    return Report(
        target,
        suite,
        plans[0]["zaqar"] if plans else "unknown",
        round(seconds, 1),
        tests,
        {test: text for test, text in texts.items() if tests[test].outcome == FAIL},
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
