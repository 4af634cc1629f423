# SPDX-License-Identifier: Apache-2.0
"""What a process with zaqar in it is asked to do; sent as its only argument."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Task:
    target: str
    suite: str
    #: Address of the Redis that belongs to this process alone.
    port: int
    socket: str
    #: Where the process may write; its report goes to ``results``.
    folder: str
    #: Folder of all processes of a run; who makes the file of a test there runs it.
    shared: str
    #: Pattern of the names of tests, as a shell understands it.
    only: str = "*"
    #: Leave MongoDB's classes where tests name them, and leave no test out.
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
    def read(cls, text: str) -> Task:
        return cls(**json.loads(text))
