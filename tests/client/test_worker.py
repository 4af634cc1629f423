# SPDX-License-Identifier: Apache-2.0
"""Workers, and what becomes of the jobs that are posted for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from zaqar_redis_client import AsyncClient, Message, Retry, Task, Worker, command

from tests.client import jobs
from tests.client.worker_process import worker_process
from tests.conventions.files import ROOT
from tests.support import servers
from tests.support.tcp_proxy import tcp_proxy


@contextlib.asynccontextmanager
async def _working(worker: Worker) -> AsyncIterator[None]:
    consumer = worker.consumer()
    task = asyncio.create_task(consumer.run())
    try:
        yield
    finally:
        consumer.stop()
        try:
            await task
        finally:
            await worker.close()


async def _until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while True:
            holds = condition()
            if holds if isinstance(holds, bool) else await holds:
                return
            await asyncio.sleep(0.02)


async def _stats(client: AsyncClient, name: str = "q") -> dict[str, int]:
    return dict((await client.queue(name).stats())["messages"])


async def _until_stats(client: AsyncClient, **wanted: int) -> None:
    async def holds() -> bool:
        stats = await _stats(client)
        return all(stats.get(name, 0) == count for name, count in wanted.items())

    await _until(holds)


async def _dead_letters(client: AsyncClient, count: int) -> list[Message]:
    found: list[Message] = []

    async def are_there() -> bool:
        found[:] = [each async for each in client.queue("failed").messages()]
        return len(found) == count

    await _until(are_there)
    return found


def _worker(running: servers.RunningService, project: str, **options: Any) -> Worker:
    worker = Worker(running.url, project, **options)
    worker.queue("q", _max_claim_count=2, _dead_letter_queue="failed", _min_claim_ttl=1)
    return worker


async def test_jobs_are_done_in_the_loop_in_threads_and_in_processes(
    running: servers.RunningService, project: str, client: AsyncClient, tmp_path: Path
) -> None:
    worker, done = _worker(running, project), []
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
    async with _working(worker):
        await asyncio.gather(*(in_loop.post(number) for number in range(100)))
        await in_thread.options(priority=3).post(1000)
        await in_process.post(str(written), "appended\n")
        await awaiting.post(str(written))
        await _until_stats(client, total=0)
    assert sorted(done) == [*range(100), 1000, 1001]
    assert sorted(written.read_text().split()) == ["appended", "awaited"]


async def test_job_that_fails_is_repeated_and_becomes_a_dead_letter_with_the_reason(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker, attempts = _worker(running, project), Counter[str]()

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
    async with _working(worker):
        await asyncio.gather(*(task.post() for task in posted))
        await client.queue("q").post({"task": "nobody's", "args": []})
        letters = await _dead_letters(client, 7)
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
    worker = _worker(running, project)
    worker.task("q", name="known")(jobs.process_fails)
    wrong = [7, {"job": 1}, {"task": "known", "args": {}}]
    async with _working(worker):
        await client.queue("q").post_many(wrong)
        found = await _dead_letters(client, len(wrong))
    assert sorted({each.reason for each in found}) == [
        "args must be an array, kwargs an object",
        'the body must be {"task": name, "args": […], "kwargs": {…}}',
    ]


async def test_task_that_asks_for_another_attempt_says_when(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker, begun = _worker(running, project), asyncio.Event()

    @worker.task("q")
    async def later() -> None:
        begun.set()
        raise Retry("the printer is out", delay=900)

    async with _working(worker):
        await later.post()
        await begun.wait()
        await _until_stats(client, delayed=1)
        (message,) = [each async for each in client.queue("q").messages(delayed=True)]
    assert message.reason == "the printer is out"


async def test_who_asks_gets_the_result(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker = _worker(running, project)

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

    async with _working(worker):
        sums = await asyncio.gather(*(add.ask(number, 1) for number in range(50)))
        assert sums == [*range(1, 51)]
        assert await asyncio.to_thread(double.ask_blocking, "ä") == ["ä", "ä"]
        assert await nothing.ask() is None
        asking = asyncio.create_task(no_json.ask())
        (letter,) = await _dead_letters(client, 1)
        assert letter.reason == "TypeError: Object of type object is not JSON serializable"
        asking.cancel()
        names = [each async for each in client.queues()]
        assert len([each for each in names if each.startswith("replies-")]) == 2
    names = [each async for each in client.queues()]
    assert sorted(names) == ["failed", "q"]


def test_task_that_cannot_work_is_refused_where_it_is_made() -> None:
    worker = Worker()
    with pytest.raises(ValueError, match="a thread cannot be stopped"):
        worker.task("q", timeout=1)(jobs.process_fails)
    with pytest.raises(ValueError, match="functions of a module"):
        worker.task("q", processes=True)(lambda: None)
    worker.task("q")(jobs.process_fails)
    with pytest.raises(ValueError, match="another name"):
        worker.task("other")(jobs.process_fails)
    with pytest.raises(ValueError, match="concurrency must be 1 or more, not 0"):
        Worker(concurrency=0)


async def test_no_more_is_claimed_than_slots_and_prefetch_and_queues_take_turns(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker, free = _worker(running, project, concurrency=4, prefetch=6), asyncio.Event()
    begun = Counter[str]()

    @worker.task("q")
    async def first() -> None:
        begun["first"] += 1
        await free.wait()

    @worker.task("other")
    async def second() -> None:
        begun["second"] += 1
        await free.wait()

    async def claimed() -> int:
        return sum([(await _stats(client, name))["claimed"] for name in ("q", "other")])

    async def all_places_are_taken() -> bool:
        return await claimed() == 10

    for task in (first, second):
        await asyncio.gather(*(task.post() for _ in range(100)))
    async with _working(worker):
        await _until(all_places_are_taken)
        await _until(lambda: begun.total() == 4)
        assert await claimed() == 10
        free.set()
        await _until(lambda: begun.total() == 200)


async def test_schedule_is_set_when_a_worker_starts_unless_it_is_the_same(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker = _worker(running, project)

    @worker.task("q")
    async def report(kind: str) -> None:
        pass

    worker.schedule("nightly", report.options(ttl=600), cron="0 3 * * *", args=["sums"])

    found: list[dict[str, Any]] = []

    async def is_set() -> bool:
        found[:] = [each async for each in client.schedules()]
        return bool(found)

    async with _working(worker):
        await _until(is_set)
    body = {"task": "report", "args": ["sums"], "kwargs": {}}
    assert (found[0]["queue"], found[0]["cron"]) == ("q", "0 3 * * *")
    assert (found[0]["message"]["body"], found[0]["message"]["ttl"]) == (body, 600)
    fields = {name: found[0][name] for name in ("queue", "cron", "message")}
    await client.set_schedule("nightly", **fields, paused=True)
    async with _working(worker):
        await report.post("now")
        await _until_stats(client, total=0)
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

        async with _working(worker):
            await client.queue("q").post(long.body())
            await _until(lambda: events[-1] == "begun")
            proxy.cut()
            await _until(lambda: events[-1] == "stopped")
            is_back.set()
            proxy.mend()
            await _until_stats(client, total=0)
        assert events[-3:] == ["stopped", "begun", "done"]


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
                claimed.append((await _stats(client))["claimed"])

        consumer = worker.consumer()
        task = asyncio.create_task(consumer.run())
        await client.queue("q").post(long.body())
        await _until(lambda: bool(consumer.running))
        getattr(proxy, how)()
        await _until(lambda: bool(claimed), 120)
        assert claimed == [1]
        proxy.mend()
        consumer.stop()
        consumer.stop()
        await task
        await worker.close()


def _marks(folder: Path, kind: str) -> int:
    return len(list(folder.glob(f"{kind}-*")))


def _hold(folder: Path, number: int) -> dict[str, Any]:
    return {"task": "hold", "args": [str(folder), number]}


@pytest.mark.parametrize("signals", [1, 2])
async def test_worker_that_is_stopped_gives_back_what_has_not_begun_at_once(
    running: servers.RunningService, project: str, client: AsyncClient, tmp_path: Path, signals: int
) -> None:
    log = tmp_path / "log"
    with worker_process(running.url, project, log) as process:
        await client.queue("q").post_many([_hold(tmp_path, number) for number in range(4)])
        await _until_stats(client, claimed=4)
        await _until(lambda: _marks(tmp_path, "begun") == 1)
        process.terminate()
        await _until_stats(client, free=3, claimed=1)
        assert process.poll() is None
        if signals == 1:
            (tmp_path / "free").touch()
        else:
            process.terminate()
        assert await asyncio.to_thread(process.wait, 60) == 0, log.read_text()
    left = [each.reason async for each in client.queue("q").messages()]
    assert left == ([""] * 3 if signals == 1 else ["the worker was stopped", "", "", ""])
    assert _marks(tmp_path, "done") == 2 - signals


async def test_jobs_of_a_worker_that_is_killed_are_done_by_another_one(
    running: servers.RunningService, project: str, client: AsyncClient, tmp_path: Path
) -> None:
    queue, log = client.queue("q"), tmp_path / "log"
    with worker_process(running.url, project, log, ttl=2) as process:
        await queue.post_many([_hold(tmp_path, number) for number in range(4)])
        await _until(lambda: _marks(tmp_path, "begun") > 0)
        process.kill()
        process.wait()
    (tmp_path / "free").touch()
    with worker_process(running.url, project, log):
        await _until_stats(client, total=0)
    assert _marks(tmp_path, "done") == 4


def test_command_of_the_service_runs_workers_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zaqar_redis.cli.main", "worker", "--help"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "client"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "MODULE:WORKER" in done.stdout, done.stderr


async def test_command_that_finds_no_worker_says_so(
    running: servers.RunningService, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, text in (
        ("tests.client.jobs", "write MODULE:WORKER"),
        ("tests.client.jobs:nobody", "has no nobody"),
        ("tests.client.jobs:hold", "is no Worker, but Task"),
        ("tests.client.nothing:worker", "No module named"),
        ("tests.client.jobs:idle", "has no tasks"),
    ):
        assert command.main([place]) == 2
        assert text in capsys.readouterr().err
