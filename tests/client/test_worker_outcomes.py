# SPDX-License-Identifier: Apache-2.0
"""Outcomes that a worker cannot tell as they are, and what it does at its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import active_children
from typing import Any

import pytest
from zaqar_redis_client import AsyncClient, Retry, Unavailable, Worker, consuming
from zaqar_redis_client.http import Answer, Connection

from tests.client import jobs
from tests.client.working import dead_letters, stats, until, until_stats, worker_of, working
from tests.support import servers


class _NoTextError(Exception):
    def __str__(self) -> str:
        raise ValueError


class _EmptyError(Exception):
    def __len__(self) -> int:
        return 0


async def test_outcome_that_cannot_be_told_gives_the_message_back(
    running: servers.RunningService,
    project: str,
    client: AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # PySpark leaves a formatter in the handlers of pytest that needs the text of an error.
    monkeypatch.setattr(logging.getLogger("zaqar_redis_client"), "propagate", False)
    worker = worker_of(running, project)
    no_number: Any = object()

    @worker.task("q")
    async def no_text() -> None:
        raise _NoTextError

    @worker.task("q")
    async def empty() -> None:
        raise _EmptyError

    @worker.task("q")
    async def no_delay() -> None:
        raise Retry(delay=no_number)

    async with working(worker):
        await asyncio.gather(no_text.post(), empty.post(), no_delay.post())
        found = await dead_letters(client, 3)
    cannot = "its outcome cannot be told"
    assert {(each.body["task"], each.reason) for each in found} == {
        ("no_text", "_NoTextError"),
        ("empty", "_EmptyError:"),
        ("no_delay", f"{cannot}: TypeError"),
    }


async def test_retry_with_a_delay_that_is_refused_gives_the_message_back_and_says_so(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker = worker_of(running, project)

    @worker.task("q")
    async def too_late() -> None:
        raise Retry("the printer is out", delay=5000)

    async with working(worker):
        await too_late.post()
        (found,) = await dead_letters(client, 1)
    assert found.reason.startswith("the printer is out (delay=5000: ")
    assert "900" in found.reason


async def test_process_that_was_killed_without_a_job_costs_no_attempt(
    running: servers.RunningService, project: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = worker_of(running, project)
    pid_of = worker.task("q", processes=True)(jobs.process_pid)
    async with working(worker):
        first = await pid_of.ask()
        os.kill(first, signal.SIGKILL)
        await until(lambda: first not in [each.pid for each in active_children()])
        assert await pid_of.ask() != first
    assert "has ended with code" not in caplog.text


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], asyncio.Event]:
    """Holds the first request of a method whose path ends so; the event says that there is one."""

    def hold(held: str, end: str) -> asyncio.Event:
        is_held, send = asyncio.Event(), Connection._once

        async def slowly(connection: Connection, method: str, path: str, *more: Any) -> Answer:
            if method == held and path.endswith(end) and not is_held.is_set():
                is_held.set()
                await asyncio.Event().wait()
            return await send(connection, method, path, *more)

        monkeypatch.setattr(Connection, "_once", slowly)
        return is_held

    return hold


async def test_worker_that_stops_does_not_give_back_a_job_that_is_being_deleted(
    running: servers.RunningService,
    project: str,
    client: AsyncClient,
    hold: Callable[[str, str], asyncio.Event],
) -> None:
    worker, is_held = worker_of(running, project, grace=0), hold("DELETE", "")
    ends = worker.task("q", name="ends")(print)
    await ends.post()
    async with working(worker):
        await is_held.wait()
    assert ((await stats(client))["claimed"], (await stats(client))["free"]) == (1, 0)


async def test_failed_job_whose_release_is_under_way_is_given_back_by_a_worker_that_stops(
    running: servers.RunningService,
    project: str,
    client: AsyncClient,
    hold: Callable[[str, str], asyncio.Event],
) -> None:
    worker, is_held = worker_of(running, project, grace=0), hold("POST", "/release")

    @worker.task("q")
    async def fails() -> None:
        raise ValueError

    await fails.post()
    async with working(worker):
        await is_held.wait()
    await until_stats(client, free=1, claimed=0)


async def test_job_whose_result_cannot_be_sent_comes_again(
    running: servers.RunningService,
    project: str,
    client: AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = worker_of(running, project, ttl=1)

    async def away(*_: Any) -> None:
        raise Unavailable("tried for 30 seconds", may_be_done=True)

    monkeypatch.setattr(consuming, "reply", away)  # the service is back before the lease ends
    answer = worker.task("q", name="answer")(print)
    async with working(worker):
        await answer.post()
        await dead_letters(client, 1)


@pytest.mark.nightly  # a minute is the shortest time that a message may live
async def test_caller_learns_that_no_result_came(
    running: servers.RunningService, project: str
) -> None:
    worker = worker_of(running, project)
    answer = worker.task("q", name="answer")(print)
    with pytest.raises(TimeoutError, match="answer: no result from queue q within 60 seconds"):
        await answer.ask()
    await worker.close()


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        *(("concurrency", value, "a whole number, 1 or more") for value in (0, "4", 1.5, True)),
        *(("prefetch", value, "a whole number, 0 or more") for value in (-1, 0.5)),
        ("ttl", 1.5, "a whole number, 1 or more"),
        *(("grace", value, "a number, 0 or more") for value in (-1, True, None)),
    ],
)
def test_worker_names_a_number_that_it_cannot_have(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be {wanted}, not {value!r}$"):
        Worker(**{name: value})


@pytest.mark.parametrize("timeout", [0, -1, "3"])
def test_time_limit_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(ValueError, match=f"'print' must be above 0, not {timeout!r}"):
        Worker().task("q", timeout=timeout, processes=True)(print)


async def test_worker_without_grace_gives_back_what_has_not_begun(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker = worker_of(running, project, concurrency=1, prefetch=3, grace=0)
    freed = threading.Event()

    @worker.task("q")
    def holds() -> None:
        freed.wait()

    await asyncio.gather(*(holds.post() for _ in range(4)))
    async with working(worker):
        await until_stats(client, claimed=4)
    freed.set()
    assert (await stats(client))["free"] == 3


def test_url_without_a_scheme_is_refused_at_once() -> None:
    with pytest.raises(
        ValueError, match=r"url must begin with http:// or https://, not '\[::1\]:1'"
    ):
        Worker("[::1]:1").task("q")(print).post_blocking()
