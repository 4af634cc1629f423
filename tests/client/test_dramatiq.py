# SPDX-License-Identifier: Apache-2.0
"""dramatiq on the service: jobs are done while workers and the service end."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dramatiq
import psutil
import pytest
from dramatiq.errors import ConnectionClosed, QueueJoinTimeout, QueueNotFound
from zaqar_redis_client import Client, Queue, Unavailable
from zaqar_redis_client.dramatiq import ZaqarBroker

from tests.client import frameworks
from tests.support import servers
from tests.support.backends import Backend

_COMMAND = ["dramatiq", "tests.client.dramatiq_app", "--processes", "1", "--threads", "4"]


@pytest.fixture
def broker(running: servers.RunningService, project: str) -> Iterator[ZaqarBroker]:
    broker = ZaqarBroker(running.url, project)
    dramatiq.set_broker(broker)
    yield broker
    broker.close()


@pytest.fixture
def worker(broker: ZaqarBroker) -> Iterator[dramatiq.Worker]:
    worker = dramatiq.Worker(broker, worker_threads=4, worker_timeout=100)
    worker.start()
    yield worker
    worker.stop()


def _messages(numbers: range, seconds: float = 0) -> list[dramatiq.Message[Any]]:
    return [
        dramatiq.Message("default", "work", (number,), {"seconds": seconds}, {})
        for number in numbers
    ]


def test_jobs_are_done_and_failures_come_back_after_their_delay(
    broker: ZaqarBroker, worker: dramatiq.Worker
) -> None:
    done, times = set(), []

    @dramatiq.actor(broker=broker)
    def work(number: int) -> None:
        done.add(number)

    @dramatiq.actor(broker=broker, min_backoff=500, max_backoff=500)
    def fail() -> None:
        times.append(time.monotonic())
        if len(times) < 2:
            raise ValueError("not yet")

    for number in range(50):
        work.send(number)
    sent = time.monotonic()
    fail.send_with_options(delay=900)
    broker.join("default", timeout=60_000)
    assert done == {*range(50)}
    assert times[0] - sent >= 0.9
    assert len(times) == 2
    assert times[1] - times[0] >= 0.5


def test_failed_job_becomes_a_dead_letter_with_its_reason(
    broker: ZaqarBroker, worker: dramatiq.Worker
) -> None:
    @dramatiq.actor(broker=broker, max_retries=0)
    def fail() -> None:
        raise ValueError("no paper")

    fail.send()
    broker.join("default", timeout=60_000)
    broker.enqueue(dramatiq.Message("default", "unknown", (), {}, {}))
    broker.queue("default").post("no job")
    broker.join("default", timeout=60_000)
    assert broker.get_queue_message_counts("default") == (0, 0, 3)
    reasons = [each.attributes["reason"] for each in broker.queue("default.XQ").messages()]
    assert reasons[0] == "ValueError: no paper"
    assert str(reasons[1]).startswith("ActorNotFound")
    assert "decode" in str(reasons[2])


def test_consumer_holds_no_more_than_its_prefetch(broker: ZaqarBroker) -> None:
    broker.declare_queue("default")
    for message in _messages(range(6)):
        broker.enqueue(message)
    first = broker.consume("default", prefetch=3, timeout=100)
    held = [next(first) for _ in range(4)]
    assert [each and each.args for each in held] == [(0,), (1,), (2,), None]
    second = broker.consume("default", prefetch=2, timeout=100)
    other = next(second)
    assert other
    assert other.args == (3,)
    assert held[0]
    first.ack(held[0])
    following = next(first)
    assert following
    assert following.args == (5,)
    first.requeue([each for each in held[1:] if each])
    second.close()
    again = broker.consume("default", prefetch=6, timeout=100)
    numbers = [each.args[0] for each in (next(again) for _ in range(3)) if each]
    assert numbers == [1, 2, 4]


def test_priority_and_queue_of_a_job_are_those_of_its_message(broker: ZaqarBroker) -> None:
    @dramatiq.actor(broker=broker, queue_name="letters", broker_priority=3)
    def work() -> None: ...

    work.send()
    work.send_with_options(broker_priority=9, delay=2_000_000)
    listed = [*broker.queue("letters").messages(delayed=True)]
    assert [each.priority for each in listed] == [3, 9]
    assert broker.get_queue_message_counts("letters") == (1, 1, 0)
    with pytest.raises(QueueJoinTimeout):
        broker.join("letters", timeout=1)
    broker.flush_all()
    broker.join("letters", timeout=60_000)
    with pytest.raises(QueueNotFound):
        broker.consume("unknown")


def test_document_of_a_schedule_is_a_job(broker: ZaqarBroker, worker: dramatiq.Worker) -> None:
    begun = threading.Event()

    @dramatiq.actor(broker=broker)
    def work() -> None:
        begun.set()

    broker.queue("default").post(work.message().asdict())
    assert begun.wait(60)


def test_broker_serves_a_forked_process_too(broker: ZaqarBroker) -> None:
    broker.declare_queue("default")
    (message,) = _messages(range(1))
    broker.enqueue(message)
    pid = os.fork()
    if not pid:
        try:
            broker.enqueue(message)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    broker.enqueue(message)
    assert broker.get_queue_message_counts("default") == (3, 0, 0)


def test_job_whose_retry_cannot_be_posted_comes_back(
    broker: ZaqarBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, enqueue = [], broker.queue

    @dramatiq.actor(broker=broker, min_backoff=1)
    def work() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            monkeypatch.setattr(broker, "queue", _away)
            raise ValueError("once")

    def _away(name: str) -> Any:
        monkeypatch.setattr(broker, "queue", enqueue)
        raise ConnectionClosed("the service is away")

    work.send()
    worker = dramatiq.Worker(broker, worker_threads=1, worker_timeout=100)
    worker.start()
    try:
        servers.wait_for(lambda: len(attempts) == 2, "the second attempt")
        broker.join("default", timeout=60_000)
    finally:
        worker.stop()


def test_failed_job_near_the_limit_is_retried_and_moved_without_its_traceback(
    broker: ZaqarBroker, worker: dramatiq.Worker
) -> None:
    for name in ("default", "default.XQ"):
        broker.queue(name).create(_max_messages_post_size=1200)
    times = []

    @dramatiq.actor(broker=broker, max_retries=1, min_backoff=500, max_backoff=500)
    def fail(text: str) -> None:
        times.append(time.monotonic())
        raise ValueError("no paper")

    fail.send("x" * 600)
    broker.join("default", timeout=60_000)
    assert len(times) == 2
    assert times[1] - times[0] >= 0.5
    (dead,) = broker.queue("default.XQ").messages()
    assert dead.attributes["reason"] == "ValueError: no paper"
    assert "traceback" not in dead.body


def test_job_whose_retry_is_refused_comes_back_after_its_back_off(
    broker: ZaqarBroker, worker: dramatiq.Worker
) -> None:
    attempts = []

    @dramatiq.actor(broker=broker, min_backoff=600_000, max_backoff=600_000)
    def fail() -> None:
        attempts.append(1)
        broker.queue("default").update(_max_messages_post_size=10)
        raise ValueError("no paper")

    fail.send()
    _wait_until_delayed(broker, "too large")
    assert len(attempts) == 1


def _wait_until_delayed(broker: ZaqarBroker, reason: str) -> None:
    """Waits until the only message of the queue has come back for this reason, with a delay."""
    servers.wait_for(lambda: broker.get_queue_message_counts("default")[1] == 1, "a delay")
    (delayed,) = broker.queue("default").messages(delayed=True)
    assert reason in delayed.reason


@pytest.mark.parametrize("is_job", [True, False])
def test_job_that_cannot_become_a_dead_letter_comes_back_and_leaves_its_place(
    broker: ZaqarBroker, is_job: bool
) -> None:
    broker.declare_queue("default")
    broker.queue("default.XQ").create(_max_messages_post_size=10)
    first, second = _messages(range(2))
    broker.queue("default").post(first.asdict() if is_job else "no job")
    consumer = broker.consume("default", prefetch=1, timeout=100)
    held = next(consumer)
    assert bool(held) == is_job
    if held:
        consumer.nack(held)
    _wait_until_delayed(broker, "too large")
    broker.enqueue(second)
    following = next(consumer)
    assert following
    assert following.args == (1,)


def test_message_that_is_no_job_comes_back_when_it_cannot_be_moved(
    broker: ZaqarBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.declare_queue("default")
    broker.queue("default").post("no job")
    consumer = broker.consume("default", timeout=100)

    def _away(*_: object, **__: object) -> None:
        raise Unavailable("the service is away", may_be_done=False)

    with monkeypatch.context() as patched:
        patched.setattr(Queue, "post", _away)
        with pytest.raises(ConnectionClosed):
            next(consumer)
    consumer.close()
    assert next(broker.consume("default", timeout=100)) is None
    assert broker.get_queue_message_counts("default") == (0, 0, 1)


@pytest.fixture
def jobs(running: servers.RunningService, project: str) -> Iterator[ZaqarBroker]:
    broker = ZaqarBroker(running.url, project)
    broker.declare_queue("default")
    broker.queue("default").create(_min_claim_ttl=1)
    yield broker
    broker.close()


@contextlib.contextmanager
def _twelve_jobs(
    jobs: ZaqarBroker, url: str, project: str, folder: Path
) -> Iterator[tuple[Client, psutil.Process]]:
    """Jobs of half a second, and the worker that does them."""
    for message in _messages(range(12), seconds=0.5):
        jobs.enqueue(message)
    with (
        Client(url, project) as client,
        frameworks.worker(_COMMAND, url, project, folder) as process,
    ):
        yield client, process


def test_jobs_of_a_killed_worker_are_done_by_another(
    jobs: ZaqarBroker, running: servers.RunningService, project: str, tmp_path: Path
) -> None:
    with _twelve_jobs(jobs, running.url, project, tmp_path) as (client, process):
        frameworks.wait_for_jobs(client, "begun", 5)
        frameworks.kill(process)
        with frameworks.worker(_COMMAND, running.url, project, tmp_path, "another"):
            frameworks.wait_for_jobs(client, "done", 12)
            jobs.join("default", timeout=60_000)


def test_worker_that_is_asked_to_end_finishes_and_gives_back_the_rest(
    jobs: ZaqarBroker, running: servers.RunningService, project: str, tmp_path: Path
) -> None:
    with _twelve_jobs(jobs, running.url, project, tmp_path) as (client, process):
        frameworks.wait_for_jobs(client, "begun", 1)
        process.terminate()
        servers.wait_for(lambda: not process.children(), "the worker to end")
        begun = frameworks.numbers(client, "begun")
        assert begun == frameworks.numbers(client, "done")
        assert jobs.get_queue_message_counts("default")[0] == 12 - len(begun)
        assert jobs.queue("default").stats()["messages"]["claimed"] == 0


@pytest.mark.nightly  # two services and the pauses of the worker take ten seconds
def test_worker_goes_on_when_the_service_was_away(
    redis_server: Backend, project: str, tmp_path: Path
) -> None:
    port = servers.free_port()  # the worker knows it before there is a service
    broker = ZaqarBroker(f"http://127.0.0.1:{port}", project)
    broker.declare_queue("default")

    def post(numbers: range) -> None:
        broker.queue("default").create(_min_claim_ttl=1)
        for message in _messages(numbers):
            broker.enqueue(message)

    frameworks.assert_worker_outlives_service(
        _COMMAND, redis_server.uri, port, project, tmp_path, post
    )
    broker.close()
