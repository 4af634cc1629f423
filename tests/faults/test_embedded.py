# SPDX-License-Identifier: Apache-2.0
"""The embedded server of a data directory: stopped with the service, reused, shared."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.faults import load
from tests.support import servers


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not tmp_path: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="zr-") as name:
        yield Path(name)
        assert server(Path(name)) is None, "the private server was left behind"


def serve(folder: Path, workers: int = 1) -> AbstractContextManager[servers.RunningService]:
    # A service that does not end by itself is killed long after the test has timed out.
    options = load.OPTIONS | {"server": {"graceful_timeout": 300}}
    return servers.service(f"embedded://{folder}", workers=workers, options=options)


def server(folder: Path) -> int | None:
    """Returns the pid of the directory's server; None when it does not run."""
    at_once = Retry(NoBackoff(), 0)
    with redis.Redis(unix_socket_path=str(folder / "redis.sock"), retry=at_once) as client:
        try:
            return int(client.info("server")["process_id"])
        except (redis.RedisError, OSError):
            return None


def is_written(folder: Path) -> bool:
    """Returns whether a kill would lose nothing: Redis does not write while a slow disk syncs."""
    with redis.Redis(unix_socket_path=str(folder / "redis.sock")) as client:
        return int(client.info("persistence")["aof_buffer_length"]) == 0


def kill_server(folder: Path) -> None:
    """Kills the server; returns when another one runs."""
    gone = server(folder)
    assert gone
    os.kill(gone, signal.SIGKILL)
    servers.wait_for(lambda: server(folder) not in (None, gone), "another server")


def restarts_logged(service: servers.RunningService, times: int) -> bool:
    return service.log.read_text().count("ended; it was started again as process") == times


def is_alive(process: int) -> bool:
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):  # also of one that ends meanwhile
        return False


def post(service: servers.RunningService, project: str, *bodies: str) -> None:
    document = {"messages": [{"body": body} for body in bodies]}
    url = f"{service.url}/v2/queues/q/messages"
    httpx.post(url, json=document, headers=load.headers(project), timeout=60).raise_for_status()


def test_ctrl_c_stops_everything_and_a_second_start_has_the_queue(
    folder: Path, project: str
) -> None:
    with serve(folder, workers=2) as service:
        post(service, project, "one", "two")
        everything = [service.process.pid, *service.workers(), server(folder) or 0]
        os.killpg(service.process.pid, signal.SIGINT)  # as a terminal does
        assert service.process.wait(60) == 0
        assert [process for process in everything if is_alive(process)] == []
    with serve(folder) as service:
        assert load.held(service, project, "q") == ["one", "two"]
        post(service, project, "three")
        assert load.held(service, project, "q") == ["one", "two", "three"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_to_the_master_stops_everything(
    folder: Path, project: str, number: signal.Signals
) -> None:
    with serve(folder, workers=2) as service:
        post(service, project, "one")
        everything = [service.process.pid, *service.workers(), server(folder) or 0]
        service.process.send_signal(number)
        service.process.wait(60)
        assert [process for process in everything if is_alive(process)] == []


@pytest.mark.nightly
def test_services_started_at_once_share_one_server(folder: Path, project: str) -> None:
    first, second = ExitStack(), ExitStack()
    with ThreadPoolExecutor(2) as pool, first, second:
        starting = [
            pool.submit(stack.enter_context, serve(folder, workers=2)) for stack in (first, second)
        ]
        one, other = [start.result() for start in starting]
        shared = server(folder)
        assert shared
        post(one, project, "from one")
        post(other, project, "from the other")
        assert load.held(one, project, "q") == load.held(other, project, "q")

        first.close()
        assert server(folder) == shared
        post(other, project, "later")
        assert load.held(other, project, "q") == ["from one", "from the other", "later"]
        second.close()
        assert not is_alive(shared)


@pytest.mark.nightly
def test_exit_of_a_worker_does_not_stop_the_server(folder: Path, project: str) -> None:
    with serve(folder, workers=2) as service:
        post(service, project, "one")
        before, shared = service.workers(), server(folder)
        os.kill(before[0], signal.SIGQUIT)  # it shuts down gracefully
        servers.wait_for(
            lambda: before[0] not in service.workers() and len(service.workers()) == 2,
            "a new worker",
        )
        assert server(folder) == shared
        assert load.held(service, project, "q") == ["one"]


@pytest.mark.nightly
def test_killed_service_leaves_its_data_and_no_workers(folder: Path, project: str) -> None:
    with serve(folder, workers=2) as service:
        post(service, project, "one")
        workers, shared = service.workers(), server(folder)
        service.process.kill()
        service.process.wait()
        # Otherwise they would keep the port from the next start.
        servers.wait_for(lambda: not any(map(is_alive, workers)), "the workers to end")
    with serve(folder) as service:
        assert server(folder) == shared
        assert load.held(service, project, "q") == ["one"]


def test_killed_server_is_restarted_and_loses_nothing(folder: Path, project: str) -> None:
    uri = f"embedded://{folder}?appendfsync=always"
    with servers.service(uri, workers=2, options=load.OPTIONS) as service:
        servers.wait_for(lambda: len(service.workers()) == 2, "both workers")
        before = service.workers()
        with load.QueueLoad(service, project) as clients:
            for number in range(3):
                clients.wait_for_more()
                kill_server(folder)
                clients.wait_for_more()
                servers.wait_for(
                    partial(restarts_logged, service, number + 1), "the log line of the restart"
                )
        clients.check()
        assert clients.broken == 0
        assert service.workers() == before


@pytest.mark.nightly
def test_data_survive_a_kill_of_service_and_server(folder: Path, project: str) -> None:
    with serve(folder, workers=2) as service:
        post(service, project, "one", "two")
        time.sleep(1.2)  # the append-only file is synced every second
        servers.wait_for(partial(is_written, folder), "the append-only file to be written")
        everything = [service.process.pid, *service.workers(), server(folder) or 0]
        for process in everything:
            os.kill(process, signal.SIGKILL)
        service.process.wait()
    with serve(folder) as service:
        assert load.held(service, project, "q") == ["one", "two"]
