# SPDX-License-Identifier: Apache-2.0
"""Tasks for workers of Celery, which say in a file that they ran."""

from __future__ import annotations

import os
import time
from pathlib import Path

import zaqar_redis_client.kombu  # noqa: F401
from celery import Celery, Task

from tests.conventions.files import ROOT


def environment(**variables: str) -> dict[str, str]:
    """Returns the environment of a process that uses the client."""
    paths = [str(ROOT), str(ROOT / "client"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | variables


def application(broker: str, backend: str, lease: int = 60) -> Celery:
    app = Celery("tests.client.celery_app", broker=broker, backend=backend)
    app.conf.broker_transport_options = {"visibility_timeout": lease}
    app.conf.task_create_missing_queues = True
    app.conf.broker_connection_retry_on_startup = True
    app.conf.worker_cancel_long_running_tasks_on_connection_loss = False
    app.task(add, name="add")
    app.task(note, name="note")
    app.task(note, name="note_late", acks_late=True, reject_on_worker_lost=True)
    app.task(hold, name="hold", acks_late=True)
    app.task(fail_twice, name="fail_twice", bind=True, max_retries=5)
    return app


def add(*numbers: int | list[int]) -> int:
    return sum(sum(each) if isinstance(each, list) else each for each in numbers)


def note(path: str, number: int, seconds: float = 0.0) -> int:
    time.sleep(seconds)
    with Path(path).open("a") as file:
        file.write(f"{number}\n")
    return number


def hold(path: str, number: int) -> None:
    """Waits for its end, until there is a file."""
    note(path, number)
    while not Path(f"{path}.done").exists():
        time.sleep(0.02)


def fail_twice(self: Task, delay: float) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=delay)
    return int(self.request.retries)


if "TEST_BROKER" in os.environ:
    app = application(
        os.environ["TEST_BROKER"], os.environ["TEST_BACKEND"], int(os.environ["TEST_LEASE"])
    )
