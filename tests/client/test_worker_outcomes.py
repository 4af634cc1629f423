# SPDX-License-Identifier: Apache-2.0
"""Outcomes that a worker cannot tell as they are, and what it does at its end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from multiprocessing import active_children
from typing import Any

import pytest
from zaqar_redis_client import AsyncClient, Retry, Worker

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
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
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
        ("no_text", f"{cannot}: ValueError"),
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
