# SPDX-License-Identifier: Apache-2.0
"""Two releases beside each other on one store: this one, and the one before."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from benchmarks.chaos import mover
from tests.availability import releases
from tests.conventions.files import ROOT
from tests.faults import load
from tests.realtime import crowd
from tests.realtime.sdk_client import IGNORE_UNCLOSED_SOCKETS
from tests.support import servers
from tests.support.command_line import CommandLine
from tests.support.receivers import answering_endpoint
from tests.support.servers import RedisServer, RunningService

pytestmark = IGNORE_UNCLOSED_SOCKETS

#: What an event of a channel, or an answer, may take on a busy machine.
_SECONDS = 30.0
_OPTIONS: dict[str, dict[str, object]] = {
    **load.OPTIONS,
    "DEFAULT": {"admin_mode": True},
    "channels": crowd.OPTIONS["channels"]
    | {"join_leave": True, "force_push_join_leave": True, "api_insecure": True},
    "notification": {"allowed_networks": "127.0.0.0/8"},
}
_WORKERS = "zr:{control}:workers"


@dataclass
class TwoReleases:
    redis: RedisServer
    old: RunningService
    new: RunningService


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("previous")
    releases.extract_previous(folder)
    return folder


def _old_service(uri: str, folder: Path) -> contextlib.AbstractContextManager[RunningService]:
    environment = {"PYTHONPATH": str(folder)}
    return servers.service(uri, options=_OPTIONS, environment=environment, cwd=folder)


@pytest.fixture(scope="module")
def both(previous: Path) -> Iterator[TwoReleases]:
    with (
        servers.redis_server() as redis,
        _old_service(redis.uri, previous) as old,
        servers.service(redis.uri, options=_OPTIONS) as new,
    ):
        yield TwoReleases(redis, old, new)
        # A listener that cannot read a message opens its connection again.
        assert "listener_lost" not in old.log.read_text() + new.log.read_text()


@pytest.fixture(params=["old then new", "new then old"])
def services(
    both: TwoReleases, request: pytest.FixtureRequest
) -> tuple[RunningService, RunningService]:
    pair = (both.old, both.new)
    return pair if request.param.startswith("old") else pair[::-1]


class UpgradedQueue:
    """A queue of a project, through either of two services."""

    def __init__(self, project: str, name: str = "q") -> None:
        self._http = httpx.Client(headers=load.headers(project), timeout=_SECONDS, verify=False)
        self.path = f"/v2/queues/{name}"

    def ask(self, service: RunningService, method: str, path: str, document: object = None) -> Any:
        """Returns the document of the answer; None: it has none."""
        url = service.url + (path if path.startswith("/v2") else self.path + path)
        answer = self._http.request(method, url, json=document)
        assert answer.status_code < 300, f"{method} {url}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def post(self, service: RunningService, *bodies: Any) -> None:
        self.ask(service, "POST", "/messages", {"messages": [{"body": each} for each in bodies]})

    def claim(self, service: RunningService, limit: int = 1) -> list[dict[str, Any]]:
        claimed = self.ask(service, "POST", f"/claims?limit={limit}", {"ttl": 60, "grace": 60})
        messages: list[dict[str, Any]] = claimed["messages"] if claimed else []
        return messages

    def listed(self, service: RunningService) -> list[dict[str, Any]]:
        path = "/messages?echo=true&include_claimed=true&limit=1000"
        messages: list[dict[str, Any]] = self.ask(service, "GET", path)["messages"]
        return messages


def test_each_service_runs_the_code_of_its_release(both: TwoReleases, previous: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "import zaqar_redis; print(zaqar_redis.__file__)"],
        cwd=previous,
        env=releases.environment(previous),
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(shown.stdout.strip()).parent == previous / "zaqar_redis"
    for pid in (both.old.process.pid, *both.old.workers()):
        assert os.readlink(f"/proc/{pid}/cwd") == str(previous)

    def reported() -> list[int]:
        with both.redis.client() as client:
            return sorted(len(name.split()) for name in client.hkeys(_WORKERS))

    servers.wait_for(lambda: reported() == [1, 3], "a worker of each release to report")


def test_messages_of_both_releases_have_one_order(both: TwoReleases, project: str) -> None:
    queue = UpgradedQueue(project)
    for number in range(40):
        queue.post((both.old, both.new)[number % 2], number)
    listed = queue.listed(both.old)
    assert [each["body"] for each in listed] == [*range(40)]
    assert [each["id"] for each in queue.listed(both.new)] == [each["id"] for each in listed]


def test_claim_of_one_release_is_respected_renewed_and_released_by_the_other(
    services: tuple[RunningService, RunningService], project: str
) -> None:
    first, second = services
    queue = UpgradedQueue(project)
    queue.post(first, 0, 1)
    claimed = queue.claim(first, 2)
    assert [each["body"] for each in claimed] == [0, 1]
    assert queue.claim(second) == []
    path, _, claim = claimed[0]["href"].partition("?claim_id=")
    queue.ask(second, "PATCH", f"/claims/{claim}", {"ttl": 600, "grace": 60})
    assert queue.ask(first, "GET", f"/claims/{claim}")["ttl"] == 600
    queue.ask(second, "DELETE", f"{path}?claim_id={claim}")
    queue.ask(second, "DELETE", f"/claims/{claim}")
    assert [each["body"] for each in queue.claim(first)] == [1]
    assert queue.claim(second) == []


def test_message_claimed_too_often_through_both_is_a_dead_letter_once(
    services: tuple[RunningService, RunningService], project: str
) -> None:
    first, second = services
    queue = UpgradedQueue(project)
    queue.ask(first, "PUT", "", {"_max_claim_count": 2, "_dead_letter_queue": "dead"})
    queue.post(first, "x")
    for service in services:
        (message,) = queue.claim(service)
        claim = message["href"].partition("?claim_id=")[2]
        queue.ask(service, "DELETE", f"/claims/{claim}")
    assert queue.claim(first) == []
    assert queue.listed(second) == []
    assert [each["body"] for each in UpgradedQueue(project, "dead").listed(second)] == ["x"]


def test_subscription_gets_messages_of_both_releases_once(
    services: tuple[RunningService, RunningService], project: str
) -> None:
    first, second = services
    queue = UpgradedQueue(project)
    with answering_endpoint() as endpoint:
        subscriber = {"subscriber": endpoint.uri, "ttl": 600}
        queue.ask(first, "PUT", "")
        queue.ask(first, "POST", "/subscriptions", subscriber)
        for number in range(10):
            queue.post(services[number % 2], number)
        servers.wait_for(lambda: len(endpoint.bodies()) >= 10, "the deliveries")
        queue.post(second, "last")
        servers.wait_for(lambda: "last" in endpoint.bodies(), "the last delivery")
        found = Counter(endpoint.bodies())  # in any order: several are delivered at a time
        assert found == Counter([*range(10), "last"])


async def test_channels_reach_subscribers_at_both_releases(
    both: TwoReleases, services: tuple[RunningService, RunningService]
) -> None:
    with both.redis.client() as client:
        client.delete(*client.keys("zr:channel:*") or ["none"])
    async with crowd.subscriber_fleet([both.redis.uri], *services, each=2) as fleet:
        await fleet.wait_for_acknowledged(50)
        await fleet.finish()


class PushedClient:
    """A client of channels that keeps all pushes."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.pushes: list[dict[str, Any]] = []
        self.id = self.ask(connect={})["client"]

    def send(self, **command: Any) -> None:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, **command}))

    def ask(self, **command: Any) -> Any:
        """Returns the result of a command."""
        self.send(**command)
        while True:
            for reply in self._read():
                if reply.get("id") == self._number:
                    assert "error" not in reply, reply
                    return reply[next(iter(command))]

    def wait_for(self, enough: Callable[[], bool]) -> None:
        end = time.monotonic() + _SECONDS  # the service's pings would let it wait for ever
        while not enough():
            assert time.monotonic() < end, self.pushes
            self._read()

    def joined(self) -> set[str]:
        return {each["join"]["info"]["client"] for each in self.pushes if "join" in each}

    def published(self) -> list[Any]:
        return [each["pub"]["data"] for each in self.pushes if "pub" in each]

    def _read(self) -> list[dict[str, Any]]:
        replies = [json.loads(line) for line in self._socket.recv(_SECONDS).splitlines()]
        self.pushes += [each["push"] for each in replies if "push" in each]
        if {} in replies:
            self._socket.send("{}")
        return replies


@contextlib.contextmanager
def _client(service: RunningService) -> Iterator[PushedClient]:
    with connect(f"ws://127.0.0.1:{service.port}/connection/websocket") as socket:
        yield PushedClient(socket)


def _call(service: RunningService, method: str, **document: Any) -> Any:
    url = f"{service.url}/api/{method}"
    answer = httpx.post(url, json=document, timeout=_SECONDS, verify=False).json()
    assert "error" not in answer, answer
    return answer["result"]


def test_client_recovers_at_the_other_release(
    services: tuple[RunningService, RunningService], project: str
) -> None:
    first, second = services
    channel = project
    with _client(first) as client:
        told = client.ask(subscribe={"channel": channel, "recover": True})
    for number in range(5):
        _call(services[number % 2], "publish", channel=channel, data=number)
    position = {"epoch": told["epoch"], "offset": told.get("offset", 0)}
    with _client(second) as client:
        found = client.ask(subscribe={"channel": channel, "recover": True, **position})
    assert found["recovered"]
    assert [each["data"] for each in found["publications"]] == [*range(5)]


def test_joins_at_one_release_are_seen_at_the_other(
    services: tuple[RunningService, RunningService], project: str
) -> None:
    first, second = services
    channel, number = project, 12
    with _client(first) as watcher, contextlib.ExitStack() as stack:
        watcher.ask(subscribe={"channel": channel})
        others = [stack.enter_context(_client(second)) for _ in range(number)]
        for other in others:  # at once: their joins leave together
            other.send(subscribe={"channel": channel})
        watcher.wait_for(lambda: watcher.joined() >= {each.id for each in others})
        for service in services:
            found = _call(service, "presence", channel=channel)["presence"]
            assert len(found) == number + 1


def test_nodes_of_both_releases_answer_each_other(both: TwoReleases) -> None:
    for service in (both.old, both.new):
        # Each waits for the others' answers, but not for long.
        servers.wait_for(partial(_knows_both, service), "two nodes")


def _knows_both(service: RunningService) -> bool:
    return len(_call(service, "info")["nodes"]) == 2


def test_routing_service_of_the_new_release_leaves_the_old_one_alone(
    both: TwoReleases, project: str
) -> None:
    with _client(both.old) as watcher, _client(both.new) as routed:
        watcher.ask(subscribe={"channel": project})
        for number in range(5):
            _call(both.new, "topic_subscribe", client=routed.id, topic=f"t{number}")
            _call(both.new, "send", route="broadcast", type="t", payload=number)
        _call(both.new, "publish", channel=project, data="after")
        watcher.wait_for(lambda: watcher.published() == ["after"])
        routed.wait_for(lambda: sum("message" in each for each in routed.pushes) == 5)
    assert "listener_lost" not in both.old.log.read_text()


#: The program that moves a queue, in each of the releases.
_MOVERS = {"old": "tests.faults.mover", "new": mover.__name__}


class Rollout:
    """A store with two pools, between which a queue under load is moved by both releases."""

    def __init__(self, uri: str, previous: Path, project: str) -> None:
        self.uri = uri
        self.folders = {"old": previous, "new": ROOT}
        self._project = project

    def move(self, release: str, log: Path) -> None:
        """Moves the queue to each of the pools, by the code of a release."""
        folder = self.folders[release]
        with log.open("wb") as output:
            running = subprocess.Popen(
                [sys.executable, "-m", _MOVERS[release], self.uri, self._project, "busy"],
                cwd=folder,
                env=releases.environment(folder),
                stdout=output,
            )
        try:
            # A service may undo a move of a mover that it takes for dead: that is tried again.
            servers.wait_for(
                lambda: len(set(log.read_text().split("\n")) & {"one", "two"}) == 2, "moves"
            )
        finally:
            running.terminate()
            assert running.wait(60) == 0

    def check(self, release: str) -> None:
        """Asserts that the check of a release finds nothing."""
        words = ("zaqar_redis.cli.main", "check", "--storage", self.uri, "-f", "json")
        done = releases.run_in(self.folders[release], *words)
        assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stdout + done.stderr


@pytest.fixture
def rollout(previous: Path, project: str) -> Iterator[Rollout]:
    with (
        servers.redis_server() as default,
        servers.redis_server() as one,
        servers.redis_server() as two,
    ):
        shell = CommandLine(["--storage", default.uri])
        for name, store in (("one", one), ("two", two)):
            shell.done("pool", "create", name, "--uri", store.uri, "--weight", "1")
        yield Rollout(default.uri, previous, project)


def _merged(*loads: load.QueueLoad) -> load.QueueLoad:
    """Returns the first one, with what the others know: all took messages of one queue."""
    first, *others = loads
    for each in others:
        first.posted |= each.posted
        first.unsure |= each.unsure
        first.deleted |= each.deleted
        first.perhaps_deleted |= each.perhaps_deleted
        first.wrong += each.wrong
    return first


@pytest.mark.nightly
def test_rollout_under_load_and_back_loses_nothing(
    rollout: Rollout, project: str, tmp_path: Path
) -> None:
    clients = {"keyed": 1, "plain": 1, "takers": 1}
    previous, uri = rollout.folders["old"], rollout.uri
    with servers.service(uri, options=_OPTIONS) as new:
        with (
            _old_service(uri, previous) as old,
            load.QueueLoad(old, project, **clients) as at_old,
            load.QueueLoad(new, project, **clients) as at_new,
        ):
            at_old.wait_for_more(60)
            at_new.wait_for_more(60)
            assert set(at_old.statuses) | set(at_new.statuses) <= {200, 201, 204}
            rollout.move("old", tmp_path / "moves of old")
            rollout.move("new", tmp_path / "moves of new")
            at_old.wait_for_more(20)
            at_old.stop()
            at_new.wait_for_more(20)
            at_new.stop()
            at_both = _merged(at_old, at_new)
            at_both.check(old)
        at_both.check(new)
        with load.QueueLoad(new, project, **clients) as alone:
            alone.wait_for_more(40)
        at_both = _merged(alone, at_both)
        at_both.check(new)
        rollout.check("new")
        shell = CommandLine(["--storage", uri])
        # For seconds a worker that has ended is taken for one that lives.
        servers.wait_for(
            lambda: shell.run("upgrade", "--check").returncode == 0,
            "the old worker to be forgotten",
        )
        assert {row["adds"] for row in shell.shown("upgrade", "--check")} == {""}
    with _old_service(uri, previous) as back:
        with load.QueueLoad(back, project, **clients) as alone:
            alone.wait_for_more(40)
        _merged(alone, at_both).check(back)
        rollout.check("old")
