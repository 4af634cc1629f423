# SPDX-License-Identifier: Apache-2.0
"""Workers, and what becomes of the jobs that are posted for them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from zaqar_redis_client import AsyncClient, JobFailed, Refused, Retry, Task, Worker

from tests.client import jobs
from tests.client.working import dead_letters, pid_in, stats, until, until_stats, worker_of, working
from tests.support import servers
from tests.support.tcp_proxy import tcp_proxy


async def test_jobs_are_done_in_the_loop_in_threads_and_in_processes(
    running: servers.RunningService, project: str, client: AsyncClient, tmp_path: Path
) -> None:
    worker, done = worker_of(running, project), []
    written = tmp_path / "written"

    @worker.task("q")
    async def in_loop(value: int, *, more: int = 0) -> None:
        done.append(value + more)

    @worker.task("q")
    def in_thread(value: int) -> None:
        done.append(value)
        in_loop.post_blocking(value, more=1)

    in_process = worker.task("q", processes=True)(jobs.process_append)
    awaiting = worker.task("q", processes=True)(jobs.process_awaits)
    async with working(worker):
        await asyncio.gather(*(in_loop.post(number) for number in range(100)))
        await in_thread.options(priority=3).post(1000)
        await in_process.post(str(written), "appended\n")
        await awaiting.post(str(written))
        await until_stats(client, total=0)
    assert sorted(done) == [*range(100), 1000, 1001]
    assert sorted(written.read_text().split()) == ["appended", "awaited"]


async def test_job_that_fails_is_repeated_and_becomes_a_dead_letter_with_the_reason(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker, attempts = worker_of(running, project), Counter[str]()

    @worker.task("q")
    async def fails() -> None:
        attempts["fails"] += 1
        raise ValueError("no\npaper\0" + "x" * 1000)

    @worker.task("q")
    def exits() -> None:
        attempts["exits"] += 1
        raise SystemExit(3)

    @worker.task("q", timeout=0.1)
    async def takes_long() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            attempts["takes_long"] += 1

    @worker.task("q")
    async def once() -> None:
        attempts["once"] += 1
        if attempts["once"] == 1:
            raise OSError("the first time")

    posted: list[Task[[], Any]] = [fails, exits, takes_long, once]
    posted.append(worker.task("q", processes=True, timeout=0.5)(jobs.process_sleep))
    posted.append(worker.task("q", processes=True)(jobs.process_dies))
    posted.append(worker.task("q", processes=True)(jobs.process_fails))
    async with working(worker):
        await asyncio.gather(*(task.post() for task in posted))
        await client.queue("q").post({"task": "nobody's", "args": []})
        letters = await dead_letters(client, 7)
    reasons = {each.body["task"]: each.reason for each in letters}
    assert reasons.pop("fails").startswith("ValueError: no paper?xxx")
    assert "this worker has" in reasons.pop("nobody's")
    assert reasons == {
        "exits": "SystemExit: 3",
        "takes_long": "TimeoutError: it took longer than 0.1 seconds",
        "process_sleep": "TimeoutError: it took longer than 0.5 seconds",
        "process_dies": "RuntimeError: the process of the task has ended with code -9",
        "process_fails": "ValueError: of the process",
    }
    assert attempts == {"fails": 2, "exits": 2, "takes_long": 2, "once": 2}


async def test_message_that_is_no_job_says_what_one_looks_like(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker = worker_of(running, project)
    worker.task("q", name="known")(jobs.process_fails)
    wrong = [7, {"job": 1}, {"task": "known", "args": {}}]
    async with working(worker):
        await client.queue("q").post_many(wrong)
        found = await dead_letters(client, len(wrong))
    assert sorted({each.reason for each in found}) == [
        "args must be an array, kwargs an object",
        'the body must be {"task": name, "args": […], "kwargs": {…}}',
    ]


async def test_task_that_asks_for_another_attempt_says_when(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker, begun = worker_of(running, project), asyncio.Event()

    @worker.task("q")
    async def later() -> None:
        begun.set()
        raise Retry("the printer is out", delay=900)

    in_process = worker.task("q", processes=True)(jobs.process_later)
    async with working(worker):
        await later.post()
        await begun.wait()
        await in_process.post(15)
        await until_stats(client, delayed=2)
        found = [each.reason async for each in client.queue("q").messages(delayed=True)]
    assert sorted(found) == ["in 15 minutes", "the printer is out"]


async def test_who_asks_gets_the_result(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker = worker_of(running, project)

    @worker.task("q")
    async def add(*numbers: int) -> int:
        return sum(numbers)

    @worker.task("q")
    def double(text: str) -> list[str]:
        return [text, text]

    @worker.task("q")
    async def nothing() -> None:
        pass

    @worker.task("q")
    async def no_json() -> object:
        return object()

    async with working(worker):
        sums = await asyncio.gather(*(add.ask(number, 1) for number in range(50)))
        assert sums == [*range(1, 51)]
        assert await asyncio.to_thread(double.ask_blocking, "ä") == ["ä", "ä"]
        assert await nothing.ask() is None
        sums_of = worker.task("q", processes=True)(jobs.process_sums)
        assert await sums_of.ask(2, 3) == [5, 2]
        reason = "TypeError: Object of type object is not JSON serializable"
        with pytest.raises(JobFailed, match=f"^{reason}$"):
            await no_json.ask()
        (letter,) = await dead_letters(client, 1)
        assert letter.reason == reason
        names = [each async for each in client.queues()]
        assert len([each for each in names if each.startswith("replies-")]) == 2
    names = [each async for each in client.queues()]
    assert sorted(names) == ["failed", "q"]


async def test_worker_ends_when_the_service_refuses_what_it_needs(
    running: servers.RunningService, project: str
) -> None:
    worker = Worker(running.url, project, ttl=2)
    with pytest.raises(ValueError, match="no tasks"):
        await worker.consumer().run()
    worker.task("q")(jobs.process_fails)
    with pytest.raises(Refused, match="ttl"):  # of its claims: the queue allows 60 at least
        await worker.consumer().run()
    worker.queue("q", _max_messages=0)
    with pytest.raises(Refused, match="_max_messages"):
        await worker.consumer().run()
    await worker.close()


def test_task_that_cannot_work_is_refused_where_it_is_made() -> None:
    worker = Worker()
    with pytest.raises(ValueError, match="a thread cannot be stopped"):
        worker.task("q", timeout=1)(jobs.process_fails)
    with pytest.raises(ValueError, match="functions of a module"):
        worker.task("q", processes=True)(lambda: None)
    worker.task("q")(jobs.process_fails)
    with pytest.raises(ValueError, match="another name"):
        worker.task("other")(jobs.process_fails)
    with pytest.raises(ValueError, match="concurrency must be a whole number, 1 or more, not 0"):
        Worker(concurrency=0)


async def test_no_more_is_claimed_than_slots_and_prefetch_and_queues_take_turns(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker, free = worker_of(running, project, concurrency=4, prefetch=6), asyncio.Event()
    begun: list[str] = []

    @worker.task("q")
    async def first() -> None:
        begun.append("first")
        await free.wait()

    @worker.task("other")
    async def second() -> None:
        begun.append("second")
        await free.wait()

    async def claimed() -> int:
        return sum([(await stats(client, name))["claimed"] for name in ("q", "other")])

    async def all_places_are_taken() -> bool:
        return await claimed() == 10

    for task in (first, second):
        await asyncio.gather(*(task.post() for _ in range(100)))
    async with working(worker):
        await until(all_places_are_taken)
        await until(lambda: len(begun) == 4)
        assert await claimed() == 10
        free.set()
        await until(lambda: len(begun) == 200)
    assert 50 < begun[:150].count("first") < 100


async def test_schedule_is_set_when_a_worker_starts_unless_it_is_the_same(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker = worker_of(running, project)

    @worker.task("q")
    async def report(kind: str) -> None:
        pass

    worker.schedule("nightly", report.options(ttl=600), cron="0 3 * * *", args=["sums"])

    found: list[dict[str, Any]] = []

    async def is_set() -> bool:
        found[:] = [each async for each in client.schedules()]
        return bool(found)

    async with working(worker):
        await until(is_set)
    body = {"task": "report", "args": ["sums"], "kwargs": {}}
    assert (found[0]["queue"], found[0]["cron"]) == ("q", "0 3 * * *")
    assert (found[0]["message"]["body"], found[0]["message"]["ttl"]) == (body, 600)
    fields = {name: found[0][name] for name in ("queue", "cron", "message")}
    await client.set_schedule("nightly", **fields, paused=True)
    async with working(worker):
        await report.post("now")
        await until_stats(client, total=0)
    assert await is_set()
    assert found[0]["paused"]


async def test_worker_that_loses_its_network_stops_what_runs_and_goes_on_when_it_is_back(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    async with tcp_proxy(running.port) as (proxy, port):
        worker = Worker(f"http://127.0.0.1:{port}", project, ttl=2)
        worker.queue("q", _min_claim_ttl=1)
        events, is_back = ["posted"], asyncio.Event()

        @worker.task("q")
        async def long() -> None:
            events.append("begun")
            try:
                await is_back.wait()
                events.append("done")
            except asyncio.CancelledError:
                events.append("stopped")
                raise

        async with working(worker):
            await client.queue("q").post(long.body())
            await until(lambda: events[-1] == "begun")
            proxy.cut()
            await until(lambda: events[-1] == "stopped")
            is_back.set()
            proxy.mend()
            await until_stats(client, total=0)
        assert events[-3:] == ["stopped", "begun", "done"]


async def test_worker_that_loses_its_network_kills_processes_and_drops_what_threads_return(
    running: servers.RunningService,
    project: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with tcp_proxy(running.port) as (proxy, port):
        worker = Worker(f"http://127.0.0.1:{port}", project, ttl=2)
        worker.queue("q", _min_claim_ttl=1)
        begun, is_back = [0], threading.Event()

        @worker.task("q")
        def in_thread() -> None:
            begun[0] += 1
            is_back.wait()

        in_process = worker.task("q", processes=True)(jobs.process_hold)
        async with AsyncClient(running.url, project) as client, working(worker):
            await client.queue("q").post(in_process.body(str(tmp_path / "pid")))
            pid = await pid_in(tmp_path / "pid")
            await client.queue("q").post(in_thread.body())
            await until(lambda: begun[0] > 0)
            proxy.cut()
            await until(lambda: not psutil.pid_exists(pid))
            await until(lambda: caplog.text.count("could not be renewed") >= 2)
            before = begun[0]
            await client.queue("q").purge()
            await client.queue("q").post(in_thread.body())
            is_back.set()
            proxy.mend()
            await until_stats(client, total=0)
            assert begun[0] == before + 1


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["cut", "hold"])
async def test_lease_is_given_up_before_others_get_the_message(
    running: servers.RunningService, project: str, client: AsyncClient, how: str
) -> None:
    async with tcp_proxy(running.port) as (proxy, port):
        worker, claimed = Worker(f"http://127.0.0.1:{port}", project, ttl=60), list[int]()

        @worker.task("q")
        async def long() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                claimed.append((await stats(client))["claimed"])

        consumer = worker.consumer()
        task = asyncio.create_task(consumer.run())
        await client.queue("q").post(long.body())
        await until(lambda: bool(consumer.running))
        getattr(proxy, how)()
        await until(lambda: bool(claimed), 120)
        assert claimed == [1]
        proxy.mend()
        consumer.stop()
        consumer.stop()
        await task
        await worker.close()
