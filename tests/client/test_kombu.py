# SPDX-License-Identifier: Apache-2.0
"""kombu's transport and a service: what kombu's own tests do not look at."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import kombu
import pytest
import zaqar_redis_client.kombu as transport
from zaqar_redis_client import AsyncClient, Client, kombu_channel

from tests.client.celery_app import environment
from tests.support import servers
from tests.support.tcp_proxy import ProxyThread, TcpProxy

#: Holds what it gets, says so, and waits to be killed.
_CONSUMER = """
import sys, time, kombu, zaqar_redis_client.kombu
connection = kombu.Connection(sys.argv[1], transport_options={"visibility_timeout": 1})
queue = kombu.Queue("q")
with kombu.Consumer(connection, [queue], on_message=lambda _: print("has it", flush=True)):
    while True:
        connection.drain_events()
"""


@pytest.fixture
def url(running: servers.RunningService, project: str) -> str:
    return f"zaqar-redis://127.0.0.1:{running.port}/{project}"


@pytest.fixture
def connection(url: str) -> Iterator[Any]:
    with kombu.Connection(url) as connection:
        yield connection


@pytest.fixture
def service(running: servers.RunningService, project: str) -> Iterator[Client]:
    with Client(running.url, project) as client:
        yield client


def _publish(connection: Any, body: object, queue: str = "q", **options: Any) -> None:
    with connection.Producer() as producer:
        producer.publish(body, routing_key=queue, declare=[kombu.Queue(queue)], **options)


def _receive(connection: Any, *queues: Any, seconds: float = 60) -> Any:
    """Returns a message of these queues, not acknowledged."""
    found: list[Any] = []
    with kombu.Consumer(connection, [*queues], on_message=found.append, prefetch_count=1):
        while not found:
            connection.drain_events(timeout=seconds)
    return found[0]


def _is_redelivered(message: Any) -> bool:
    return bool(message.delivery_info["redelivered"])


def test_message_is_json_that_others_can_read(connection: Any, service: Client) -> None:
    _publish(connection, {"n": 1}, headers={"kind": "order"}, priority=12)
    (message,) = service.queue("q").messages()
    assert message.body["body"] == '{"n": 1}'
    assert message.body["headers"]["kind"] == "order"
    assert (message.priority, message.ttl) == (12, 14 * 86400)


def test_message_that_others_have_posted_has_all_of_it_as_body(
    connection: Any, service: Client
) -> None:
    posted = [{"n": 1}, {"body": 1, "properties": 2}, "text", b"\xff\0"]
    service.queue("q").post_many(posted)
    for body in posted:
        message = _receive(connection, kombu.Queue("q"))
        message.ack()
        assert (message.body if isinstance(body, bytes) else message.payload) == body


def test_acknowledged_message_is_gone_and_others_come_again(
    connection: Any, url: str, service: Client
) -> None:
    for number in range(3):
        _publish(connection, number)
    with kombu.Connection(url) as other:
        _receive(other, kombu.Queue("q")).ack()
        held = _receive(other, kombu.Queue("q"))
        assert (held.payload, _is_redelivered(held)) == (1, False)
    again = _receive(connection, kombu.Queue("q"))
    assert (again.payload, _is_redelivered(again)) == (1, True)
    assert service.queue("q").stats()["messages"]["total"] == 2


def test_wait_that_ends_without_a_message_is_no_lost_connection(connection: Any) -> None:
    with kombu.Consumer(connection, [kombu.Queue("q")]), pytest.raises(TimeoutError) as raised:
        connection.drain_events(timeout=0.01)
    # Celery would reconnect, which deletes its queue of results.
    assert not isinstance(raised.value, connection.connection_errors)


def test_no_more_is_held_than_the_prefetch_count(connection: Any, service: Client) -> None:
    queues = [kombu.Queue(f"q{number}") for number in range(3)]
    for queue in queues:
        for number in range(5):
            _publish(connection, number, queue.name)
    held: list[Any] = []
    done = 0
    with kombu.Consumer(connection, queues, on_message=held.append, prefetch_count=4):
        while done < 15:
            if not held:
                connection.drain_events(timeout=60)
            assert len(held) <= 4
            held.pop().ack()
            done += 1
    assert [service.queue(queue.name).stats()["messages"]["total"] for queue in queues] == [0] * 3


def test_messages_of_a_killed_consumer_come_back_after_their_lease(
    connection: Any, url: str
) -> None:
    consumer = subprocess.Popen(
        [sys.executable, "-c", _CONSUMER, url], stdout=subprocess.PIPE, env=environment()
    )
    with contextlib.closing(connection), consumer:
        try:
            _publish(kombu.Connection(url, transport_options={"visibility_timeout": 1}), "once")
            assert consumer.stdout
            assert consumer.stdout.readline() == b"has it\n"
        finally:
            consumer.kill()
        message = _receive(connection, kombu.Queue("q"))
        assert (message.payload, _is_redelivered(message)) == ("once", True)


def test_message_with_an_eta_waits_in_the_service(connection: Any, service: Client) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    _publish(connection, "later", headers={"eta": later.isoformat()})
    _publish(connection, "past", headers={"eta": (later - timedelta(hours=2)).isoformat()})
    _publish(connection, "wrong", headers={"eta": "soon"})
    for expected in ("past", "wrong"):
        message = _receive(connection, kombu.Queue("q"))
        assert message.payload == expected
        message.ack()
    (waiting,) = service.queue("q").messages(delayed=True)
    assert waiting.body["body"] == "later"


def test_threads_that_connect_at_once_share_a_client(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)

    class _Client(AsyncClient):
        def __init__(self, *args: Any, **options: Any) -> None:
            both.wait(60)  # so that each thread has looked for one before
            super().__init__(*args, **options)

    monkeypatch.setattr(transport, "AsyncClient", _Client)
    connections = [kombu.Connection(url) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        clients = [*threads.map(lambda each: each.transport.service(), connections)]
    assert clients[0] is clients[1]


def test_queue_that_deletes_itself_ends_with_its_channel_one_that_expires_does_not(
    url: str, service: Client
) -> None:
    with kombu.Connection(url) as connection:
        queues = [kombu.Queue("expiring", expires=120), kombu.Queue("own", auto_delete=True)]
        with kombu.Consumer(connection, queues, on_message=print):
            assert len([*service.queues()]) == 2
    assert [*service.queues()] == ["expiring"]


@pytest.mark.parametrize("kind", ["fanout", "topic"])
def test_bindings_are_known_to_other_processes_until_their_queues_are_deleted(
    connection: Any, url: str, service: Client, kind: str
) -> None:
    exchange = kombu.Exchange("news", type=kind)
    queues = [
        kombu.Queue(f"reader@{number}", exchange, routing_key="news.#", auto_delete=True)
        for number in range(2)
    ]
    with kombu.Connection(url) as readers:
        for queue in queues:
            queue(readers.default_channel).declare()
        connection.Producer(exchange=exchange).publish("today", routing_key="news.today")
        for queue in queues:
            message = _receive(readers, queue)
            assert message.payload == "today"
            message.ack()
        assert len([*service.queues()]) == 2
    assert [*service.queues()] == []
    assert service.topic("kombu.news").metadata().keys().isdisjoint(_bindings(service, "news"))
    connection.Producer(exchange=exchange).publish("nobody", routing_key="news.today")
    assert [*service.queues()] == []


def _bindings(service: Client, exchange: str) -> set[str]:
    names = service.topic(f"kombu.{exchange}").metadata()
    return {name for name in names if name.startswith("binding-")}


def test_queue_of_a_dead_process_is_removed_by_the_next_that_binds(
    connection: Any, service: Client
) -> None:
    exchange = kombu.Exchange("news", type="fanout")
    dead = kombu.Queue("dead", exchange, expires=10)
    dead(connection.default_channel).declare()
    (key,) = _bindings(service, "news")
    row = service.topic("kombu.news").metadata()[key]
    service.topic("kombu.news").update(**{key: [*row[:3], time.time() - 3600]})
    with connection.channel() as channel:
        kombu.Queue("alive", exchange)(channel).declare()
        assert [row[2] for row in channel.get_table("news")] == ["alive"]
    assert [*service.queues()] == ["alive"]


def test_arguments_of_a_queue_are_its_metadata(connection: Any, service: Client) -> None:
    queue = kombu.Queue("q", max_priority=10, max_length=2, message_ttl=120)
    queue(connection.default_channel).declare()
    metadata = service.queue("q").metadata()
    assert metadata["_default_message_ttl"] == 120
    assert (metadata["_priorities"], metadata["_max_messages"]) == ("strict", 2)
    for number in range(3):
        connection.Producer().publish(number, routing_key="q")
    assert queue(connection.default_channel).queue_declare(passive=True).message_count == 2


def test_publication_without_an_answer_is_repeated_and_done_once(
    running: servers.RunningService,
    project: str,
    service: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_RETRY_FOR", 0.2)
    with ProxyThread().running() as proxies:
        port = proxies.add(running.port)
        with kombu.Connection(f"zaqar-redis://127.0.0.1:{port}/{project}") as connection:
            _publish(connection, "before")
            proxies.change(port, TcpProxy.cut)
            with pytest.raises(connection.connection_errors):
                _publish(connection, "lost")
            with pytest.raises(connection.connection_errors):
                connection.clone().connect()
            proxies.change(port, TcpProxy.mend)
            proxies.change(port, lambda proxy: proxy.drop(4))
            policy = {"interval_start": 0.1, "max_retries": 100}
            _publish(connection, "after", retry=True, retry_policy=policy)
    assert [each.body["body"] for each in service.queue("q").messages()] == ["before", "after"]


def test_publication_that_is_tried_again_is_the_same_message_and_a_forwarded_one_is_not(
    connection: Any, service: Client
) -> None:
    channel = connection.default_channel
    properties: dict[str, Any] = {"delivery_mode": 2}
    for is_lost in (False, True, False):
        message = channel.prepare_message("x", properties=properties)
        channel.basic_publish(message, "", "q")
        if is_lost:  # what an attempt does that gets no answer, when it was done all the same
            kombu_channel._uncertain.append(properties["delivery_tag"])
    assert service.queue("q").stats()["messages"]["total"] == 2
