# SPDX-License-Identifier: Apache-2.0
"""Deliveries while notifiers, stores and endpoints fail: at least once, to queues exactly once."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.test_deliveries import state, update
from tests.notify import deliveries
from tests.notify.fault_endpoint import FaultEndpoint, fault_endpoint
from tests.notify.mail_server import running_mail_server
from tests.support import servers
from tests.support.notifiers import notifier
from tests.support.stores import ContractStore, PooledContractStore, opened

#: A process that was killed is replaced soon, and the endpoint is on this host.
OPTIONS = {"notification": {"lease": 1, "allowed_networks": "127.0.0.0/8"}}
LEASE_SECONDS = 1.0
#: A retry after a second, as often as a test needs.
PATIENT = {"minimum_delay": 1, "minimum_delay_retries": 100, "maximum_delay": 11}


@pytest.fixture
def endpoint() -> Iterator[FaultEndpoint]:
    with fault_endpoint() as endpoint:
        yield endpoint


def subscribe(store: ContractStore, subscriber: str, **options: Any) -> str:
    given = {"timeout": 0.5, "_retry_policy": PATIENT, **options}
    return deliveries.subscribe(store, subscriber, **given)


def post(store: ContractStore, first: int, number: int) -> int:
    """Posts numbers; returns the next one."""
    store.post(*(str(n) for n in range(first, first + number)))
    return first + number


def numbers(count: int) -> list[str]:
    return [str(n) for n in range(count)]


def wait_for_firsts(endpoint: FaultEndpoint, path: str, number: int) -> None:
    servers.wait_for(lambda: len(endpoint.firsts(path)) == number, f"all messages at {path}")


def test_killed_and_stopped_processes_and_failing_endpoints_lose_nothing(
    server: servers.RedisServer, store: ContractStore, endpoint: FaultEndpoint
) -> None:
    chosen = random.Random(18)
    subscribe(store, endpoint.uri("/flaky"))
    subscribe(store, endpoint.uri("/flaky-ordered"), ordered=True, batch=3)
    subscribe(store, endpoint.uri("/slow"), timeout=30, concurrency=1)
    gone = subscribe(store, endpoint.uri("/gone"))
    subscribe(store, endpoint.uri("/refused"), dead_letter_queue="dead")
    subscribe(store, "queue:copy")
    with notifier(server.uri, OPTIONS) as one, notifier(server.uri, OPTIONS) as other:
        posted = 0
        for fault in ("kill", "store", "stop", "kill"):
            for _ in range(4):
                posted = post(store, posted, chosen.randrange(1, 10))
            victim = chosen.choice([one, other])
            if fault == "kill":
                victim.restart()
            elif fault == "store":
                server.stop()
                server.start()
                store.wait_until_back()
            else:
                victim.pause()
                posted = post(store, posted, 5)
                time.sleep(1.5 * LEASE_SECONDS)
                victim.resume()
        expected = numbers(posted)
        for path in ("/flaky", "/flaky-ordered"):
            wait_for_firsts(endpoint, path, posted)
        for queue in ("copy", "dead"):
            store.wait_for_messages(posted, queue=queue)
        assert endpoint.taken["/slow"] == []  # and yet delayed none of them
        endpoint.released.set()
        wait_for_firsts(endpoint, "/slow", posted)
        assert store.driver.subscriptions
        get = store.driver.subscriptions.get
        # An attempt that took too long is made once more.
        servers.wait_for(lambda: store.run(get(store.project, "q", gone)) is None, "its end")
    assert endpoint.firsts("/flaky-ordered") == expected
    assert sorted(endpoint.firsts("/flaky"), key=int) == expected
    assert store.listed("copy") == expected
    assert sorted(store.listed("dead"), key=int) == expected
    letter = store.page(queue="dead", limit=1).items[0]
    assert letter.attributes is not None
    assert letter.attributes["delivery-status"] == 400


@pytest.mark.nightly
def test_queue_that_moves_between_pools_delivers_all(
    server: servers.RedisServer, project: str, endpoint: FaultEndpoint
) -> None:
    with (
        servers.redis_server(fsync="always") as one,
        servers.redis_server(fsync="always") as two,
        opened(f"pooled://{server.uri}|{one.uri}|{two.uri}", project) as store,
    ):
        assert isinstance(store, PooledContractStore)
        store.create_for_processes()
        subscribe(store, endpoint.uri("/flaky"))
        subscribe(store, endpoint.uri("/flaky-ordered"), ordered=True)
        subscribe(store, endpoint.uri("/away"))
        subscribe(store, "queue:copy")
        posted = 0
        with notifier(server.uri, OPTIONS) as running:
            for place in range(3):
                posted = post(store, posted, 20)
                servers.wait_for(lambda: endpoint.attempts["/away"] > 0, "an attempt")
                pool = store.run(store.driver.control.catalogue.locate(project, "q")).pool
                assert pool
                other = "p2" if pool == "p1" else "p1"
                store.run(store.driver.mover.move(project, "q", pool, other))
                if place == 1:
                    running.restart()
            posted = post(store, posted, 20)
            endpoint.released.set()
            for path in ("/flaky", "/flaky-ordered", "/away"):
                wait_for_firsts(endpoint, path, posted)
            store.wait_for_messages(posted, queue="copy")
        assert endpoint.firsts("/flaky-ordered") == numbers(posted)
        assert store.listed("copy") == numbers(posted)


@pytest.mark.nightly
def test_next_notifier_delivers_first_what_waits(
    server: servers.RedisServer, store: ContractStore, endpoint: FaultEndpoint
) -> None:
    subscribe(store, endpoint.uri("/away"), ordered=True)
    paused = subscribe(store, "queue:copy")
    update(store, paused, paused=True)
    with notifier(server.uri, OPTIONS) as running:
        posted = post(store, 0, 10)
        servers.wait_for(lambda: endpoint.attempts["/away"] > 3, "an attempt after a pause")
        servers.wait_for(lambda: state(store, paused).pending == 10, "what waits")
        running.restart()
        endpoint.released.set()
        posted = post(store, posted, 10)
        update(store, paused, paused=False)
        wait_for_firsts(endpoint, "/away", posted)
        store.wait_for_messages(posted, queue="copy")
    assert endpoint.firsts("/away") == numbers(posted)
    assert store.listed("copy") == numbers(posted)


@pytest.mark.nightly
def test_slow_subscribers_of_a_queue_delay_no_other_one(
    server: servers.RedisServer, store: ContractStore, endpoint: FaultEndpoint
) -> None:
    how: dict[str, Any] = {"concurrency": 1, "batch": 50, "timeout": 30}
    changed, *_ = [subscribe(store, endpoint.uri(f"/slow{n}"), **how) for n in range(12)]
    subscribe(store, endpoint.uri("/steady"), **how)
    with notifier(server.uri, OPTIONS):
        posted = 0
        while posted < 2000:
            posted = post(store, posted, 100)
        wait_for_firsts(endpoint, "/steady", posted)
        update(store, changed, subscriber=endpoint.uri("/steady-new"))
        endpoint.released.set()
        for n in range(1, 12):
            wait_for_firsts(endpoint, f"/slow{n}", posted)
        servers.wait_for(
            lambda: (
                {*endpoint.taken["/slow0"], *endpoint.taken["/steady-new"]} == {*numbers(posted)}
            ),
            "the one that has changed",
        )


def test_kill_repeats_to_quick_subscribers_nothing_that_a_slow_one_has_had_for_long(
    server: servers.RedisServer, store: ContractStore, endpoint: FaultEndpoint
) -> None:
    slow = subscribe(store, endpoint.uri("/slow"), concurrency=2, timeout=60)
    # Longer than a machine stands still: after that an attempt, or the lease, has ended.
    subscribe(store, endpoint.uri("/steady"), timeout=60)
    options = {"notification": {**OPTIONS["notification"], "lease": 6}}
    with notifier(server.uri, options) as running:
        posted = post(store, 0, 50)
        wait_for_firsts(endpoint, "/steady", posted)
        # What is under way waits, too, for all that anybody knows.
        servers.wait_for(lambda: state(store, slow).pending == posted, "what is stored")
        running.restart()
        endpoint.released.set()
        wait_for_firsts(endpoint, "/slow", posted)
        servers.wait_for(lambda: state(store, slow).pending == 0, "its end")
        assert state(store, slow).delivered == posted
    assert sorted(endpoint.taken["/steady"], key=int) == numbers(posted)


@pytest.mark.nightly
def test_greylisted_mails_survive_a_killed_notifier(
    server: servers.RedisServer, store: ContractStore
) -> None:
    with running_mail_server() as mails:
        mails.answers["ann@example.org"] = ["450 4.2.0 greylisted"] * 4
        subscribe(store, "mailto:ann@example.org", timeout=5)
        smtp = {"smtp_mode": "self_local", "smtp_host": "127.0.0.1", "smtp_tls": "none"}
        options = {"notification": {**OPTIONS["notification"], **smtp, "smtp_port": mails.port}}
        with notifier(server.uri, options) as running:
            post(store, 0, 10)
            servers.wait_for(lambda: not mails.answers["ann@example.org"], "the refusals")
            running.restart()
            servers.wait_for(
                lambda: len({mail["Message-ID"] for mail in mails.mails}) == 10, "all mails"
            )


def test_loop_of_dead_letter_queues_ends(
    server: servers.RedisServer, store: ContractStore, endpoint: FaultEndpoint
) -> None:
    id = subscribe(store, endpoint.uri("/refused"), dead_letter_queue="q")
    with notifier(server.uri, OPTIONS):
        store.post("a")
        servers.wait_for(lambda: state(store, id).failed == 9, "the end of the loop")
        assert store.visible() == ["a"] * 9
