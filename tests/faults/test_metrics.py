# SPDX-License-Identifier: Apache-2.0
"""Metrics while the store is away, workers are killed and replaced, and queues are many."""

from __future__ import annotations

import os
import signal

import httpx
import pytest

from tests.faults import load
from tests.support import servers
from tests.support.backends import Backend
from tests.support.metrics import Samples, Scraper, fallen, measured_service
from zaqar_redis.keyspace import keys

#: Seconds; a scrape takes some tens of milliseconds on an idle machine.
_PROMPT = 1.0
_PROJECT = "many"
_MANY = 100_000
_SHOWN = 20


@pytest.mark.nightly
def test_scrapes_answer_while_the_store_is_paused_and_away(project: str) -> None:
    options: dict[str, dict[str, object]] = {
        # Longer than a machine stands still: that would be a lost connection, too.
        "redis": {"timeout": 5, "connect_timeout": 5, "backoff_max": 0.1},
        "metrics": {"queues": f"{project}/q", "queues_interval": 1},
    }
    with (
        servers.redis_server() as redis,
        measured_service(redis.uri, options=options) as (service, scraper),
    ):
        post = {"messages": [{"body": 1, "ttl": 300}]}
        url = f"{service.url}/v2/queues/q/messages"
        with httpx.Client(headers=load.headers(project), timeout=60) as client:
            # A busy machine may be as slow as a store that is away.
            servers.wait_for(lambda: client.post(url, json=post).is_success, "a message")
            servers.wait_for(lambda: scraper.value("queue_posted_total", queue="q") > 0, "counts")
            scraper.wait_for("store_up", 2)
            posted = scraper.value("queue_posted_total", queue="q")
            lost = scraper.value("store_connections_lost_total")
            for end, number in (("paused", signal.SIGSTOP), ("killed", signal.SIGKILL)):
                redis.signal(number)
                servers.wait_for(
                    lambda: client.post(url, json=post).status_code == 503, f"Redis is {end}"
                )
                scraper.wait_for("store_up", 0)
                assert scraper.value("queue_posted_total", queue="q") == posted
                servers.wait_for(
                    lambda: scraper.value("http_requests_total", status="503") > 0, "the refusals"
                )
            redis.start()
            scraper.wait_for("store_up", 2)
        # Each of two workers lost its three connections (queues, control, channels), once; attempts
        # to connect that failed were more.
        assert scraper.value("store_connections_lost_total") - lost == 6
        assert scraper.typical_seconds < _PROMPT


def test_counters_never_fall_when_workers_are_killed_and_replaced(
    redis_server: Backend, project: str
) -> None:
    with measured_service(redis_server.uri, options=load.OPTIONS) as (service, scraper):
        rising = _Rising(scraper)
        with load.QueueLoad(service, project, keyed=4, plain=2, takers=2) as clients:
            clients.wait_for_more()
            rising.check()
            for number in (signal.SIGKILL, signal.SIGTERM):
                victim = service.workers()[0]
                os.kill(victim, number)
                rising.check_until_replaced(service, [victim])
                clients.wait_for_more()
            before = service.workers()
            service.process.send_signal(signal.SIGHUP)
            rising.check_until_replaced(service, before)
            clients.wait_for_more()
        clients.check()
        servers.wait_for(lambda: scraper.value("worker_exits_total") == 4, "all exits to be seen")
        assert scraper.value("workers") == 2
        rising.check()
        posted = len(clients.posted) + len(clients.unsure)
        counted = scraper.value("messages_posted_total")
        # The worker that was killed took with it what it counted since its last report.
        assert 0 < counted <= posted
        assert scraper.typical_seconds < _PROMPT


def test_workers_that_stop_report_what_they_have_just_counted(
    redis_server: Backend, project: str
) -> None:
    with measured_service(redis_server.uri) as (service, scraper):
        with httpx.Client(headers=load.headers(project), timeout=60) as client:
            url = f"{service.url}/v2/queues/q/messages"
            for _ in range(20):
                answer = client.post(url, json={"messages": [{"body": 1, "ttl": 300}]})
                assert answer.status_code == 201
        for pid in service.workers():
            os.kill(pid, signal.SIGTERM)
        servers.wait_for(lambda: scraper.value("worker_exits_total") == 2, "workers to stop")
        assert scraper.value("messages_posted_total") == 20


@pytest.mark.nightly
def test_a_hundred_thousand_queues_make_neither_scrapes_slow_nor_series_many() -> None:
    chosen = {"queues": f"{_PROJECT}/q*", "queues_max": _SHOWN, "queues_interval": 1}
    with (
        servers.redis_server() as redis,
        measured_service(redis.uri, options={"metrics": chosen}) as (service, scraper),
    ):
        url = f"{service.url}/v2/queues/q"
        assert httpx.put(url, headers=load.headers(_PROJECT)).status_code == 201
        _copy_queue(redis)
        servers.wait_for(lambda: _shown(scraper) == _SHOWN, "queues to be shown")
        assert len(scraper.samples()) < 2000
        answer = httpx.get(f"{url}/stats", headers=load.headers(_PROJECT))
        assert answer.status_code == 200
        assert scraper.typical_seconds < _PROMPT


_COPIES = """
for number = ARGV[3], ARGV[4] do
    local name = string.format('q%06d', number)
    redis.call('COPY', KEYS[1], ARGV[1] .. name .. ARGV[2])
    redis.call('ZADD', KEYS[2], 0, name)
end
"""


class _Rising:
    """Compares each scrape with the one before."""

    def __init__(self, scraper: Scraper) -> None:
        self._scraper = scraper
        self._before: Samples = {}

    def check(self) -> None:
        now = self._scraper.samples()
        assert fallen(self._before, now) == {}
        self._before = now

    def check_until_replaced(self, service: servers.RunningService, gone: list[int]) -> None:
        """Checks until workers have taken the place of those that are *gone*."""

        def are_replaced() -> bool:
            self.check()
            workers = service.workers()
            return len(workers) == 2 and set(gone).isdisjoint(workers)

        servers.wait_for(are_replaced, "workers to be replaced")


def _shown(scraper: Scraper) -> int:
    name = "zaqar_redis_queue_oldest_message_age_seconds"
    return sum(found == name for found, _ in scraper.samples())


def _copy_queue(redis: servers.RedisServer) -> None:
    """Makes very many empty queues of the project's one, in the store itself."""
    before, after = keys.of_queue(_PROJECT, "NAME").queue.split(b"NAME")
    one, listed = keys.of_queue(_PROJECT, "q").queue, keys.of_project(_PROJECT).queues
    with redis.client() as client:
        for first in range(1, _MANY, 5000):  # some at a time: Redis answers nobody meanwhile
            client.eval(_COPIES, 2, one, listed, before, after, first, first + 4999)
        assert client.zcard(listed) == _MANY + 1
