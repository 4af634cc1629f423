# SPDX-License-Identifier: Apache-2.0
"""Applications of Celery with workers."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.client.celery_app import application, environment
from tests.support import processes, servers


@dataclass
class Cluster:
    """An application, and where its workers find it."""

    app: Any
    folder: Path
    variables: dict[str, str]

    @classmethod
    def of(
        cls,
        running: servers.RunningService,
        folder: Path,
        backend: str,
        *,
        project: str = "",
        lease: int = 60,
    ) -> Self:
        broker = f"zaqar-redis://127.0.0.1:{running.port}/{project or f'project-{uuid.uuid4()}'}"
        variables = {"TEST_BROKER": broker, "TEST_BACKEND": backend, "TEST_LEASE": str(lease)}
        return cls(application(broker, backend, lease), folder, variables)

    def close(self) -> None:
        consumer: Any = getattr(self.app.backend, "result_consumer", None)
        if getattr(consumer, "_pubsub", None):
            consumer.stop()
            # Else results that are collected when their Redis has ended look for it for minutes.
            consumer._pubsub = None
        self.app.close()

    def task(self, name: str) -> Any:
        return self.app.tasks[name]

    @contextlib.contextmanager
    def worker(self, *words: str, name: str = "one") -> Iterator[processes.LoggedProcess]:
        """Yields a running worker, which is killed in the end unless it was asked to end."""
        command = [
            *("env", *(f"{each}={value}" for each, value in environment(**self.variables).items())),
            *(*processes.PYTHON, "celery", "--app", "tests.client.celery_app", "worker"),
            *("--concurrency", "2", "--loglevel", "INFO", "--hostname", f"{name}@tests", *words),
        ]
        log = self.folder / f"{name}-{uuid.uuid4()}.log"
        worker = processes.LoggedProcess(f"worker {name}", lambda _: command, log)
        with processes.started(worker):
            servers.wait_for(lambda: "ready." in log.read_text(), "the worker to start")
            yield worker
