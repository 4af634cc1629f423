# SPDX-License-Identifier: Apache-2.0
"""What those who post jobs, and those who read the log of a worker, are told."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from zaqar_redis_client import AsyncClient, JobFailed, Retry, Task, Worker

from tests.client import jobs
from tests.client.working import dead_letters, until, until_stats, worker_of, working
from tests.support import servers

#: Nobody listens there.
_NOWHERE = "http://127.0.0.1:1"


async def _send(to: str, *, text: str = "") -> None:
    pass


def test_arguments_that_a_task_does_not_take_are_refused_at_the_call() -> None:
    worker = Worker(_NOWHERE)
    task: Any = worker.task("q", name="send")(_send)
    for args, kwargs, wrong in (
        ([], {}, "missing a required argument: 'to'"),
        (["ann", "hi"], {}, "too many positional arguments"),
        (["ann"], {"txt": "hi"}, "got an unexpected keyword argument 'txt'"),
    ):
        with pytest.raises(TypeError, match=f"^task 'send': {wrong}$"):
            task.post_blocking(*args, **kwargs)
        with pytest.raises(TypeError, match=f"^task 'send': {wrong}$"):
            worker.schedule("s", task, cron="@daily", args=args, kwargs=kwargs)
    assert task.body("ann", text="hi")["args"] == ["ann"]
    unknown: Any = worker.task("q", name="least")(min)  # which does not say what it takes
    assert unknown.body(1, 2)["args"] == [1, 2]


def test_option_and_schedule_that_are_none_say_what_there_is() -> None:
    worker = Worker(_NOWHERE)
    task: Any = worker.task("q", name="send")(_send)
    with pytest.raises(
        TypeError, match=r"^task 'send': no option 'prioriy', but ttl, delay, .*prior"
    ):
        task.options(ttl=60, prioriy=3)
    with pytest.raises(TypeError, match=r"^schedule 's': task must be .*`task`.*, not 'nosuch'$"):
        worker.schedule("s", "nosuch", cron="@daily")  # type: ignore[arg-type]  # a user's mistake


async def test_who_asks_learns_why_a_job_has_failed_for_good(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker, attempts = worker_of(running, project), Counter[str]()
    worker.queue("without", _max_claim_count=1)

    @worker.task("q")
    def fails() -> None:
        attempts["fails"] += 1
        raise ValueError("no paper")

    @worker.task("q")
    async def again() -> str:
        attempts["again"] += 1
        if attempts["again"] == 1:
            raise OSError("the first time")
        return "printed"

    @worker.task("q")
    async def never() -> None:
        raise Retry("the printer is out", delay=0)

    @worker.task("without")
    async def undying() -> str:
        attempts["undying"] += 1
        if attempts["undying"] < 3:
            raise OSError("dead letters have no queue")
        return "printed"

    in_process = worker.task("q", processes=True)(jobs.process_fails)
    asked = (fails.ask(), again.ask(), never.ask(), undying.ask(), in_process.ask())
    async with working(worker):
        found = await asyncio.gather(*asked, return_exceptions=True)
        await dead_letters(client, 3)
    assert [(type(each), str(each)) for each in found] == [
        (JobFailed, "ValueError: no paper"),
        (str, "printed"),
        (JobFailed, "the printer is out"),
        (str, "printed"),
        (JobFailed, "ValueError: of the process"),
    ]
    assert attempts == {"fails": 2, "again": 2, "undying": 3}


async def test_traceback_in_the_log_begins_with_the_function(
    running: servers.RunningService,
    project: str,
    client: AsyncClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = worker_of(running, project)

    @worker.task("q")
    async def in_loop() -> None:
        raise ValueError("of the loop")

    @worker.task("q")
    def in_thread() -> None:
        raise ValueError("of the thread")

    @worker.task("q")
    def exits() -> None:
        raise SystemExit(3)

    tasks: list[Task[[], Any]] = [in_loop, in_thread, exits]
    tasks.append(worker.task("q", processes=True)(jobs.process_fails))
    tasks.append(worker.task("q", processes=True)(jobs.process_awaits_and_fails))
    async with working(worker):
        await asyncio.gather(*(task.post() for task in tasks))
        await dead_letters(client, len(tasks))
    first: dict[str, str] = {}
    for record in caplog.records:
        if record.levelno == logging.ERROR:
            text = record.getMessage()
            if record.exc_info:
                text += "\n" + "".join(traceback.format_exception(*record.exc_info))
            _, _, trace = text.partition("Traceback (most recent call last):\n")
            first[text.split()[0]] = trace.split("\n")[0].rpartition(" ")[2]
    assert first == {name: name for name in worker.tasks}


async def test_log_of_a_stop_says_what_it_waits_for(
    running: servers.RunningService, project: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zaqar_redis_client")
    worker, may_end = worker_of(running, project, grace=40), asyncio.Event()
    holds = worker.task("q", name="holds")(may_end.wait)
    async with working(worker):
        pass
    assert "stops; jobs: 0, grace: 40 seconds" in caplog.text
    consumer = worker.consumer()
    working_on = asyncio.create_task(consumer.run())
    await holds.post()
    await until(lambda: bool(consumer.running))
    consumer.stop()
    await until(lambda: "stops; jobs: 1, grace: 40 seconds" in caplog.text)
    may_end.set()
    await working_on
    await worker.close()


class _Failing:
    """A credential that fails in its own way."""

    fails = False

    async def headers(self) -> Mapping[str, str]:
        if self.fails:
            raise LookupError("no token")
        return {}

    async def renew(self) -> bool:
        return False


async def test_worker_that_cannot_delete_its_queue_of_results_closes_and_says_so(
    running: servers.RunningService,
    project: str,
    client: AsyncClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    credential = _Failing()
    await client.queue("q").create()
    worker = Worker(running.url, project, credential=credential)
    asking = asyncio.create_task(worker.task("q", name="nothing")(print).ask())
    await until_stats(client, free=1)
    connection = worker.client()._connection
    credential.fails = True
    await worker.close()
    assert connection.session is None
    assert "stays: no token" in caplog.text
    asking.cancel()
