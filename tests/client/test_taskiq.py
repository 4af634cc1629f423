# SPDX-License-Identifier: Apache-2.0
"""taskiq on the service: tasks are done while workers and the service end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from taskiq import AckableMessage, BrokerMessage
from taskiq.receiver import Receiver
from zaqar_redis_client import AsyncClient, Client
from zaqar_redis_client.taskiq import ZaqarAsyncBroker

from tests.client import frameworks
from tests.support import servers
from tests.support.backends import Backend

_COMMAND = ["taskiq", "worker", "tests.client.taskiq_app:broker", "--workers", "1"]
_COMMAND += ["--max-async-tasks", "2"]


@contextlib.asynccontextmanager
async def _broker(url: str, project: str, **options: Any) -> AsyncGenerator[ZaqarAsyncBroker, None]:
    broker = ZaqarAsyncBroker(url, project, **options)
    await broker.startup()
    try:
        yield broker
    finally:
        await broker.shutdown()


def _message(number: int, seconds: float = 0, **labels: object) -> BrokerMessage:
    body = f'{{"task_id": "{number}", "task_name": "work", "labels": {{}}, '
    body += f'"args": [{number}, {seconds}], "kwargs": {{}}}}'
    return BrokerMessage(
        task_id=str(number), task_name="work", message=body.encode(), labels=labels
    )


async def test_task_comes_after_its_delay_and_is_gone_when_it_is_done(
    running: servers.RunningService, project: str
) -> None:
    async with _broker(running.url, project) as broker:
        done: asyncio.Queue[tuple[int, float]] = asyncio.Queue()

        @broker.task(task_name="later")
        async def later(number: int) -> None:
            await done.put((number, time.monotonic()))

        finish = asyncio.Event()
        receiver = asyncio.create_task(Receiver(broker, max_async_tasks=2).listen(finish))
        kicked = time.monotonic()
        await later.kicker().with_labels(delay=0.9).kiq(1)
        await later.kiq(2)
        assert (await asyncio.wait_for(done.get(), 60))[0] == 2
        number, at = await asyncio.wait_for(done.get(), 60)
        assert number == 1
        assert at - kicked >= 0.9
        finish.set()
        await receiver
        async with AsyncClient(running.url, project) as client:
            assert (await client.queue("taskiq").stats())["messages"]["total"] == 0


async def test_labels_become_fields_of_the_message(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    async with _broker(running.url, project, queue="letters") as broker:
        await broker.kick(_message(1, priority="7"))
        await broker.kick(_message(2, delay=2_000))
    listed = [each async for each in client.queue("letters").messages(delayed=True)]
    assert [(each.priority, each.ttl >= 1_209_600) for each in listed] == [(7, True), (0, True)]


async def test_consumers_share_a_queue_and_give_back_what_they_did_not_take(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    async with _broker(running.url, project, prefetch=3) as broker:
        for number in range(6):
            await broker.kick(_message(number))
        taken = []
        async with (
            contextlib.aclosing(broker.listen()) as first,
            contextlib.aclosing(broker.listen()) as second,
        ):
            for each in (first, second):
                message = await anext(each)
                assert isinstance(message, AckableMessage)
                taken.append(message.data)
                acknowledged: Any = message.ack()
                await acknowledged
        assert taken == [_message(0).message, _message(3).message]
    states = (await client.queue("taskiq").stats())["messages"]
    assert (states["free"], states["claimed"]) == (4, 0)


@pytest.fixture
def jobs(running: servers.RunningService, project: str) -> Iterator[Client]:
    with Client(running.url, project) as client:
        client.queue("taskiq").create(_min_claim_ttl=1)
        bodies = [_message(number, seconds=0.5).message.decode() for number in range(10)]
        client.queue("taskiq").post_many(bodies)
        yield client


def _total(client: Client) -> int:
    return int(client.queue("taskiq").stats()["messages"]["total"])


def test_tasks_of_a_killed_worker_are_done_by_another(
    jobs: Client, running: servers.RunningService, project: str, tmp_path: Path
) -> None:
    with frameworks.worker(_COMMAND, running.url, project, tmp_path) as process:
        frameworks.wait_for_jobs(jobs, "begun", 3)
        frameworks.kill(process)
    with frameworks.worker(_COMMAND, running.url, project, tmp_path, "another"):
        frameworks.wait_for_jobs(jobs, "done", 10)
        servers.wait_for(lambda: _total(jobs) == 0, "the acknowledgements")


def test_worker_that_is_asked_to_end_finishes_and_gives_back_the_rest(
    jobs: Client, running: servers.RunningService, project: str, tmp_path: Path
) -> None:
    with frameworks.worker(_COMMAND, running.url, project, tmp_path) as process:
        frameworks.wait_for_jobs(jobs, "begun", 1)
        process.terminate()
        process.wait(60)
    begun = frameworks.numbers(jobs, "begun")
    assert begun == frameworks.numbers(jobs, "done")
    states = jobs.queue("taskiq").stats()["messages"]
    assert (states["free"], states["claimed"]) == (10 - len(begun), 0)


@pytest.mark.nightly  # two services and the pauses of the worker take ten seconds
def test_worker_goes_on_when_the_service_was_away(
    redis_server: Backend, project: str, tmp_path: Path
) -> None:
    port = servers.free_port()  # the worker knows it before there is a service
    with Client(f"http://127.0.0.1:{port}", project) as client:
        queue = client.queue("taskiq")

        def post(numbers: range) -> None:
            queue.create(_min_claim_ttl=1)
            queue.post_many([_message(number).message.decode() for number in numbers])

        frameworks.assert_worker_outlives_service(
            _COMMAND, redis_server.uri, port, project, tmp_path, post
        )
