# SPDX-License-Identifier: Apache-2.0
"""The task of a process with zaqar installed; sent as its only argument."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SuiteTask:
    target: str
    suite: str
    #: URI of the store that only this process uses.
    uri: str
    #: Folder for the process's files; its report goes to ``results``.
    folder: str
    #: Folder shared by all processes of a run; the one that creates a test's file runs it.
    shared: str
    #: Pattern of the names of tests, in shell syntax.
    only: str = "*"
    #: Do not replace MongoDB's classes, and run inapplicable tests too.
    as_is: bool = False

    @property
    def results(self) -> Path:
        return Path(self.folder) / "results.jsonl"

    @property
    def configs(self) -> Path:
        return Path(self.folder) / "etc"

    def written(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> SuiteTask:
        return cls(**json.loads(text))
