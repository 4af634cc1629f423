# SPDX-License-Identifier: Apache-2.0
"""Worker commands of frameworks, and what their jobs have done."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from zaqar_redis_client import Client

from tests.support import servers

#: Beside the path of the tests: the client is on it.
PATH = {"PYTHONPATH": os.pathsep.join(sys.path)}


@contextlib.contextmanager
def worker(
    words: list[str], url: str, project: str, folder: Path, name: str = "worker"
) -> Iterator[psutil.Process]:
    """Runs a worker command, and kills it with its children in the end."""
    environment = PATH | {"SERVICE": url, "PROJECT": project}
    command = [sys.executable, "-m", *words]
    started = servers.start_logged(command, folder / f"{name}.log", environment, cwd=folder)
    process = psutil.Process(started.pid)
    try:
        yield process
    finally:
        kill(process)
        started.wait()


def assert_worker_outlives_service(
    words: list[str],
    redis: str,
    port: int,
    project: str,
    folder: Path,
    post: Callable[[range], None],
) -> None:
    """Runs a service twice at *port*: of each a worker that knows it does ten jobs."""
    url = f"http://127.0.0.1:{port}"
    with worker(words, url, project, folder), Client(url, project) as client:
        for numbers in (range(10), range(10, 20)):
            with servers.service(redis, port=port):
                post(numbers)
                wait_for_jobs(client, "done", numbers.stop)


def kill(process: psutil.Process) -> None:
    """Kills (SIGKILL) a command with its children."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


def numbers(client: Client, queue: str) -> list[int]:
    """Returns the jobs that a queue of `begun` or `done` ones has, sorted."""
    return sorted(message.body for message in client.queue(queue).messages())


def wait_for_jobs(client: Client, queue: str, count: int) -> None:
    def all_there() -> bool:
        return len({*numbers(client, queue)}) >= count

    servers.wait_for(all_there, f"{count} jobs in {queue}", 90)
