# SPDX-License-Identifier: Apache-2.0
"""A stopping service answers all requests: long polls at once, others when they are done."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.faults import load, polls
from tests.support import servers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_long_polls_are_answered_at_the_stop(number: signal.Signals, project: str) -> None:
    # Both a long poll without a response and the kill of a hanging service take longer than
    # the test.
    options = {"transport": {"max_wait": 300}, "server": {"graceful_timeout": 300}}
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, workers=2, options=options) as service,
    ):
        polls.record_commands(redis)
        async with polls.LongPollClients(service, project, "q", wait=300) as crowd:
            waiting = await crowd.claim(20)
            await polls.settled(redis, 40)
            service.process.send_signal(number)  # to the master alone
            answers = await asyncio.wait_for(asyncio.gather(*[poll.answer for poll in waiting]), 60)
            assert {status for status, _ in answers} == {204}
            await asyncio.to_thread(service.process.wait, 60)


async def test_posts_in_progress_are_finished(project: str) -> None:
    """Redis is paused when the stop begins; the posts are answered when it resumes."""
    document = b'{"messages": [{"body": "kept"}]}'

    async def posted(service: servers.RunningService, sent: asyncio.Semaphore) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        head = polls.request("POST", "/v2/queues/q/messages", project, len(document))
        writer.write(head + document)
        sent.release()
        status, _ = await polls.answer_of(reader)
        writer.close()
        await writer.wait_closed()
        return status

    # No post times out while Redis is paused.
    options = {"redis": {"timeout": 300}, "server": {"graceful_timeout": 300}}
    with servers.redis_server() as redis:
        with servers.service(redis.uri, options=options) as service:
            redis.signal(signal.SIGSTOP)
            sent = asyncio.Semaphore(0)
            posts = [asyncio.create_task(posted(service, sent)) for _ in range(20)]
            for _ in range(20):
                await sent.acquire()
            # The service reads in the order in which connections came.
            await asyncio.to_thread(servers.wait_for, service.answers, "the posts to be read")
            service.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(1)
            redis.signal(signal.SIGCONT)
            assert await asyncio.wait_for(asyncio.gather(*posts), 60) == [201] * 20
            await asyncio.to_thread(service.process.wait, 60)
        with servers.service(redis.uri, options=load.OPTIONS) as service:
            assert load.held(service, project, "q") == ["kept"] * 20


def test_stopping_under_load_loses_nothing(project: str) -> None:
    with servers.redis_server() as redis:
        with servers.service(redis.uri, workers=2) as service:
            clients = load.QueueLoad(service, project)
            with clients:
                clients.wait_for_more()
                service.process.send_signal(signal.SIGTERM)
                service.process.wait(60)
                clients.give_up()
        with servers.service(redis.uri, options=load.OPTIONS) as later:
            clients.check(later)
