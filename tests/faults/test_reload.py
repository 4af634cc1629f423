# SPDX-License-Identifier: Apache-2.0
"""SIGHUP replaces the workers: no request is lost, and no bad configuration applies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults import load
from tests.support import fixtures, servers
from tests.support.raw_http import RawConnection, request
from tests.support.ways import WAYS

#: Requests that a client sends before it reads an answer.
_PIPELINE = 5


class PipeliningClient:
    """Posts several messages at a time over one connection, as a context manager.

    What has no answer when a connection was closed is sent again, as RFC 9112 says.  A connection
    that is closed without an answer that says so is an error.
    """

    def __init__(self, port: int, project: str, way: str) -> None:
        self._port = port
        self._project = project
        self._way = way
        self.posted: list[str] = []
        self.reconnects = 0
        self.wrong: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> PipeliningClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        waiting: list[str] = []
        try:
            while not self._stopping.is_set() or waiting:
                with RawConnection(self._port) as connection:
                    while not self._stopping.is_set() or waiting:
                        waiting += [str(uuid.uuid4()) for _ in range(_PIPELINE - len(waiting))]
                        if self._is_last(connection, waiting):
                            self.reconnects += 1
                            break
                        time.sleep(0.004)
        except Exception as error:  # a thread must not die unnoticed
            self.wrong.append(f"{self._way}: {error!r}")

    def _is_last(self, connection: RawConnection, waiting: list[str]) -> bool:
        """Posts what waits; returns whether the connection was closed before all had answers."""
        connection.send(b"".join(map(self._post, waiting)))
        while waiting:
            answer = connection.answer()
            assert answer.status == 201
            self.posted.append(waiting.pop(0))
            if answer.headers.get("connection") == "close":
                assert connection.rest() == b""
                return True
            if self._stopping.is_set():
                del waiting[_PIPELINE:]
        return False

    def _post(self, text: str) -> bytes:
        document = json.dumps({"messages": [{"body": text}]}).encode()
        path = "/v2/queues/pipelined/messages"
        return request("POST", path, self._project, document, WAYS[self._way].items())


@contextlib.contextmanager
def running_load(service: servers.RunningService, project: str) -> Iterator[load.QueueLoad]:
    """Clients with and without pipelines, on both paths of a request; checks them at the end."""
    clients = load.QueueLoad(service, project, keyed=0, plain=2, takers=1)
    pipelining = [PipeliningClient(service.port, project, way) for way in WAYS]
    with contextlib.ExitStack() as stack:
        stack.enter_context(clients)
        for each in pipelining:
            stack.enter_context(each)
        clients.wait_for_more(50)
        servers.wait_for(lambda: all(each.posted for each in pipelining), "their first posts")
        yield clients
        clients.wait_for_more(50)
    for each in pipelining:
        assert each.wrong == []
        assert each.reconnects > 0
    clients.check()
    posted = [text for each in pipelining for text in each.posted]
    assert sorted(load.held(service, project, "pipelined")) == sorted(posted)


def reload(service: servers.RunningService) -> None:
    """Sends SIGHUP, and waits until all workers are others."""
    before = set(service.workers())
    service.process.send_signal(signal.SIGHUP)
    servers.wait_for(
        lambda: before.isdisjoint(service.workers()) and len(service.workers()) == len(before),
        "the workers to be replaced",
    )


store = fixtures.redis()


@pytest.fixture(scope="module")
def service(store: servers.RedisServer) -> Iterator[servers.RunningService]:
    with servers.service(store.uri, workers=2, options=load.OPTIONS) as running:
        yield running


def test_reload_under_load_loses_no_request(service: servers.RunningService, project: str) -> None:
    with running_load(service, project) as clients:
        for _ in range(2):
            reload(service)
            clients.wait_for_more(50)
    assert clients.broken == 0
    assert set(clients.statuses) <= {200, 201, 204}
    assert clients.unsure == set()


def test_worker_killed_during_a_reload_is_replaced(
    service: servers.RunningService, project: str
) -> None:
    clients = load.QueueLoad(service, project)
    with clients:
        clients.wait_for_more(50)
        before = set(service.workers())
        service.process.send_signal(signal.SIGHUP)
        servers.wait_for(lambda: bool(set(service.workers()) - before), "a new worker")
        killed = (set(service.workers()) - before).pop()
        os.kill(killed, signal.SIGKILL)
        servers.wait_for(
            lambda: len(set(service.workers()) - before - {killed}) == 2 == len(service.workers()),
            "two new workers",
        )
        clients.wait_for_more(50)
    clients.check()  # what was under way in the killed one may be stored or not


def test_readiness_names_the_store_that_does_not_answer(
    store: servers.RedisServer, service: servers.RunningService
) -> None:
    store.signal(signal.SIGSTOP)
    try:
        ready = httpx.get(f"{service.url}/healthcheck/ready", verify=False, timeout=60)
        assert ready.status_code == 503
        assert "default" in ready.json()["description"]
        assert httpx.get(f"{service.url}/healthcheck/live", verify=False).status_code == 200
    finally:
        store.signal(signal.SIGCONT)


def config_of(service: servers.RunningService) -> Path:
    return service.log.parent / "zaqar_redis.conf"


def wait_for_log(service: servers.RunningService, text: str, times: int = 1) -> None:
    servers.wait_for(lambda: service.log.read_text().count(text) >= times, f"{text} in the log")


def limit_is(service: servers.RunningService, limit: int, project: str) -> bool:
    """Returns whether the next worker that answers has the limit of messages in a page."""
    asked = f"{service.url}/v2/queues/q/messages?limit={limit + 1}"
    refused = httpx.get(asked, headers=load.headers(project), verify=False, timeout=60)
    return refused.status_code == 400 and f"between 1 and {limit}." in refused.text


def test_reload_applies_what_has_changed_and_refuses_what_is_wrong(project: str) -> None:
    options = {"transport": {"max_messages_per_page": 30}}
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as service:
        assert limit_is(service, 30, project)
        config = config_of(service)
        config.write_text("[transport]\nmax_messages_per_page = 40\n[server]\nlog_level = debug\n")
        reload(service)
        assert limit_is(service, 40, project)
        wait_for_log(service, "[DEBUG]")

        before = service.workers()
        for text, message in (
            ("[transport]\nmax_messages_per_pag = 50\n", "max_messages_per_pag: there is no such"),
            ("[ssl]\ncert_file = nowhere.pem\n", "[ssl] cert_file: nowhere.pem: No such file"),
        ):
            config.write_text(text)
            service.process.send_signal(signal.SIGHUP)
            wait_for_log(service, message)
        assert service.workers() == before
        assert limit_is(service, 40, project)


def test_reload_with_a_store_that_refuses_leaves_the_workers_before_in_service(
    project: str,
) -> None:
    with servers.redis_server() as redis, servers.service(redis.uri) as service:
        before = service.workers()
        wrong = redis.uri.replace("://", "://:wrong@")
        config_of(service).write_text(f"[storage]\ncontrol_uri = {wrong}\n")
        service.process.send_signal(signal.SIGHUP)
        wait_for_log(service, "not reloaded, the workers before go on: new ones do not reach")
        servers.wait_for(lambda: service.workers() == before, "the new ones to leave")
        queues = f"{service.url}/v2/queues"
        assert httpx.get(queues, headers=load.headers(project), verify=False).status_code == 200


@pytest.mark.nightly
def test_workers_that_do_not_start_leave_those_before_in_service(tmp_path: Path) -> None:
    port, log = servers.free_port(), tmp_path / "service.log"
    with servers.redis_server() as redis:
        words = ["--bind", f"127.0.0.1:{port}", "--workers", "2", "--storage", redis.uri]
        command = [sys.executable, "-m", "tests.faults.failing_service", *words]
        process = servers.start_logged(command, log)
        service = servers.RunningService(process, port, log)
        try:
            servers.wait_for(service.answers, "the service to start")
            for times in (1, 2):
                process.send_signal(signal.SIGHUP)
                wait_for_log(service, "the workers before go on", times)
                answer = httpx.get(service.url, verify=False, timeout=60)
                assert answer.status_code == 300
        finally:
            process.terminate()
            assert process.wait(60) == 0


def test_reload_does_not_lose_what_is_in_memory() -> None:
    with servers.service("memory://") as service:
        before = service.workers()
        service.process.send_signal(signal.SIGHUP)
        wait_for_log(service, "what memory:// stores would be lost")
        assert service.workers() == before


@pytest.mark.nightly
def test_service_that_is_asked_to_stop_is_not_ready_but_goes_on(project: str) -> None:
    # Longer than all that is asked meanwhile takes on a busy machine.
    options = {"server": {"shutdown_delay": 8}}
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as service:

        def status(path: str) -> int:
            return httpx.get(f"{service.url}{path}", verify=False, timeout=60).status_code

        assert [status(f"/healthcheck{path}") for path in ("", "/live", "/ready")] == [200] * 3
        service.process.send_signal(signal.SIGTERM)
        servers.wait_for(lambda: status("/healthcheck/ready") == 503, "the service to tell it")
        assert status("/healthcheck") == 503
        assert status("/healthcheck/live") == 200
        url = f"{service.url}/v2/queues/q/messages"
        document = {"messages": [{"body": 1}]}
        posted = httpx.post(url, json=document, headers=load.headers(project), verify=False)
        assert posted.status_code == 201
        assert service.process.wait(60) == 0


class Systemd:
    """What a service that systemd runs reports to it."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(60)

    def close(self) -> None:
        self._socket.close()

    def next(self) -> str:
        """Returns the next report but those for the watchdog."""
        while (state := self._socket.recv(4096).decode()) == "WATCHDOG=1":
            pass
        return state

    def wait_for_watchdog(self) -> None:
        while self._socket.recv(4096) != b"WATCHDOG=1":
            pass


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    listening = Systemd(tmp_path / "notify")
    yield listening
    listening.close()


def test_systemd_learns_of_start_reload_and_stop(systemd: Systemd, tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, environment=environment) as service,
    ):
        assert systemd.next() == "READY=1"
        systemd.wait_for_watchdog()
        for text in ("", "[nonsense]\n"):
            config_of(service).write_text(text)
            before = time.monotonic_ns()
            service.process.send_signal(signal.SIGHUP)
            reloading, time_of_it = systemd.next().split("\n")
            assert reloading == "RELOADING=1"
            microseconds = int(time_of_it.removeprefix("MONOTONIC_USEC="))
            assert before <= microseconds * 1000 + 999 <= time.monotonic_ns() + 999
            assert systemd.next() == "READY=1"
        systemd.wait_for_watchdog()
        service.process.send_signal(signal.SIGTERM)
        assert systemd.next() == "STOPPING=1"
        systemd.close()  # unread signs of life would hold up the stop
