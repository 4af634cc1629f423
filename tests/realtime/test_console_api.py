# SPDX-License-Identifier: Apache-2.0
"""What the console's pages ask for: overview, queues, histories and connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.support import servers
from tests.support.clock import running_clock
from tests.support.stores import PATIENT_OPTIONS
from zaqar_redis.pool_records import Pool
from zaqar_redis.records import NewMessage
from zaqar_redis.storage import pools

KEY = "the operator's key, of thirty-two bytes or more"
OPTIONS: dict[str, dict[str, object]] = {
    "channels": {"api_key": KEY, "insecure": True, "namespaces": "news"},
    "channels:news": {"history_size": 5, "history_ttl": 60},
    "history": {"interval": 1, "stuck_after": 1},
}
#: Seconds within which an overview answers whatever is away, and a busy machine may add.
PROMPT = 5.0


class Console:
    """The console's endpoints, as an operator with the key uses them."""

    def __init__(self, url: str, project: str) -> None:
        headers = {"X-API-Key": KEY, "X-Project-ID": project, "Client-ID": str(uuid.uuid4())}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=30)

    def get(self, path: str, **query: object) -> Any:
        answer = self.http.get(path, params={name: str(each) for name, each in query.items()})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def overview(self) -> Any:
        return self.get("/console/overview")

    def queues(self, **query: object) -> Any:
        """Returns a page of queues, once they have been read."""
        return self.once(lambda page: page["complete"], "/console/queues", **query)

    def once(self, wanted: Callable[[Any], object], path: str, **query: object) -> Any:
        """Returns the first answer that is as wanted.

        On a busy machine some of it may be missing: a node, or a store, that is too late.
        """
        answers: list[Any] = []

        def is_wanted() -> bool:
            answers.append(self.get(path, **query))
            return bool(wanted(answers[-1]))

        servers.wait_for(is_wanted, f"{path} to be as wanted")
        return answers[-1]

    def names(self, **query: object) -> list[str]:
        return [queue["name"] for queue in self.queues(**query)["queues"]]

    def post(self, queue: str, *messages: dict[str, Any]) -> None:
        answer = self.http.post(f"/v2/queues/{queue}/messages", json={"messages": messages})
        assert answer.status_code == 201, answer.text

    def alarm(self, text: str) -> bool:
        return any(text in alarm["text"] for alarm in self.overview()["alarms"])


@pytest.fixture
def console(service: servers.RunningService, project: str) -> Iterator[Console]:
    console = Console(service.url, project)
    with console.http:
        yield console


def test_queues_are_listed_with_all_columns(console: Console) -> None:
    console.http.put("/v2/queues/orders", json={"_dead_letter_queue": "failed"})
    console.post("orders", {"body": 1}, {"body": 2}, {"body": 3, "delay": 60})
    console.http.post("/v2/queues/orders/claims?limit=1", json={"ttl": 60, "grace": 60})
    console.post("failed", {"body": 4})
    page = console.queues(sort="name")
    failed, orders = page["queues"]
    assert [orders[name] for name in ("free", "claimed", "delayed", "total")] == [1, 1, 1, 3]
    assert (orders["name"], orders["dead_letters"]) == ("orders", 1)
    assert orders["dead_letter_queue"] == "failed"
    assert (failed["is_dead_letter_queue"], orders["is_dead_letter_queue"]) == (True, False)
    assert (orders["store"], orders["counters"]["posted"]) == ("default", 3)
    assert (page["total"], page["matching"]) == (2, 2)
    assert (page["totals"]["messages"], page["totals"]["dead_letters"]) == (4, 1)


def test_queues_are_sorted_filtered_and_paged(console: Console) -> None:
    for number in range(5):
        console.post(f"queue-{number}", *[{"body": 0}] * ((number * 2) % 5 + 1))
    console.http.put("/v2/queues/Empty")
    sizes = {f"queue-{number}": (number * 2) % 5 + 1 for number in range(5)}
    by_size = sorted(sizes, key=sizes.__getitem__)
    assert console.names() == ["Empty", *sorted(sizes)]
    assert console.names(sort="total", order="desc") == [*reversed(by_size), "Empty"]
    assert console.names(sort="free", order="asc", not_empty="true") == by_size
    assert console.names(sort="total", offset=2, limit=2) == by_size[1:3]
    assert console.names(search="EMP") == ["Empty"]
    assert console.names(dead_letters="true") == []
    page = console.queues(search="queue-", limit=1)
    assert (len(page["queues"]), page["matching"], page["total"]) == (1, 5, 6)


def test_topics_are_listed_apart_from_queues_with_their_subscriptions(console: Console) -> None:
    console.post("news", {"body": 0})
    for topic in ("news", "prices"):
        path = f"/v2/topics/{topic}"
        console.http.post(f"{path}/messages", json={"messages": [{"body": 1}, {"body": 2}]})
    for subscriber in ("queue:a", "queue:b"):
        document = {"subscriber": subscriber}
        created = console.http.post("/v2/topics/news/subscriptions", json=document)
        assert created.status_code == 201
    page = console.queues(topics="true", sort="subscriptions", order="desc")
    shown = [(topic["name"], topic["total"], topic["subscriptions"]) for topic in page["queues"]]
    assert shown == [("news", 2, 2), ("prices", 2, 0)]
    assert (page["totals"]["queues"], page["totals"]["messages"]) == (2, 4)
    assert console.names(topics="true", search="topic") == []
    assert "prices" not in console.names()


def test_attributes_of_topics_have_none_about_claims(console: Console) -> None:
    of_queues, of_topics = (
        console.get("/console/attributes", topics=topics) for topics in ("false", "true")
    )
    assert "_history_size" in of_topics
    assert "_max_claim_count" in of_queues
    assert "_max_claim_count" not in of_topics
    assert "_history_size" not in of_queues


def test_rates_are_those_of_the_store(console: Console) -> None:
    console.post("q", {"body": 0})
    console.queues()

    def has_rate() -> bool:
        console.post("q", {"body": 0})
        return bool(console.queues()["queues"][0]["posted"])

    servers.wait_for(has_rate, "a rate")
    servers.wait_for(lambda: console.overview()["totals"]["posted"] is not None, "its total")


def test_posts_of_a_project_are_those_of_clients_without_dead_letters(console: Console) -> None:
    console.http.put("/v2/queues/failed")
    dead_lettered = {"_dead_letter_queue": "failed", "_max_claim_count": 1}
    console.http.put("/v2/queues/jobs", json=dead_lettered)

    def are_without() -> bool:
        console.post("jobs", {"body": 0})
        for _ in range(2):  # the second time it is a dead letter
            claimed = console.http.post("/v2/queues/jobs/claims", json={"ttl": 60, "grace": 60})
            if claimed.status_code == 201:
                href = claimed.json()["messages"][0]["href"]
                console.http.delete(f"/v2/queues/jobs/claims/{href.rpartition('claim_id=')[2]}")
        page = console.queues()
        failed, posted = (queue["posted"] for queue in page["queues"])
        return bool(failed and page["totals"]["posted"] < failed + posted)

    servers.wait_for(are_without, "a rate without dead letters")
    assert console.overview()["totals"]["dead_letters"] > 0


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"sort": "colour"}, '"sort" is invalid: it must be one of name, free'),
        ({"order": "up"}, '"order" is invalid: it must be asc or desc'),
        ({"limit": 0}, 'The value of "limit" must be between 1 and 1000'),
        ({"offset": -1}, 'The value of "offset" must be between 0 and'),
        ({"offset": "many"}, '"offset" is invalid: it must be an integer'),
    ],
)
def test_queries_that_make_no_sense_are_refused(
    console: Console, query: dict[str, Any], why: str
) -> None:
    answer = console.http.get("/console/queues", params=query)
    assert answer.status_code == 400
    assert why in answer.json()["description"]


def test_history_of_a_queue_is_shown(console: Console) -> None:
    console.post("q", {"body": 0})

    def points() -> list[dict[str, Any]]:
        found = console.get("/console/queues/q/history", hours=1)
        assert found["step"] == 1
        return list(found["points"])

    servers.wait_for(lambda: len(points()) > 1, "the first points")
    console.post("q", {"body": 1}, {"body": 2})
    servers.wait_for(lambda: points()[-1]["free"] == 3, "a point after the post")
    assert sum(point["posted"] for point in points()) in (2, 3)
    answer = console.http.get("/console/queues/q/history?hours=25")
    assert answer.json()["description"] == 'The value of "hours" must be between 1 and 24.'


def test_queue_that_does_not_exist_has_no_history(console: Console) -> None:
    answer = console.http.get("/console/queues/missing/history")
    assert answer.status_code == 404
    assert answer.json()["description"] == "Queue missing does not exist."


def test_queue_behind_a_claim_that_nobody_ends_is_an_alarm(console: Console) -> None:
    console.post("stuck", {"body": 0}, {"body": 1})
    answer = console.http.post("/v2/queues/stuck/claims?limit=1", json={"ttl": 60, "grace": 60})
    claim = answer.json()["messages"][0]["href"].rpartition("claim_id=")[2]

    def of_queue(overview: Any) -> list[Any]:
        return [each for each in overview["alarms"] if each["subject"] == "queue stuck"]

    def is_told(overview: Any) -> bool:
        return any(f"held by claim {claim}" in each["text"] for each in of_queue(overview))

    (alarm,) = of_queue(console.once(is_told, "/console/overview"))
    assert alarm["severity"] == "warning"
    console.http.delete(f"/v2/queues/stuck/claims/{claim}")
    servers.wait_for(lambda: not console.alarm("held by claim"), "the end of the alarm")


def test_dead_letters_that_grow_are_an_alarm(console: Console) -> None:
    console.http.put("/v2/queues/jobs", json={"_dead_letter_queue": "failed"})
    console.post("failed", {"body": 0})

    def grows() -> bool:
        console.post("failed", {"body": 0})
        return console.alarm("The dead-letter queue failed of jobs has grown")

    servers.wait_for(grows, "the alarm")


def test_overview_shows_stores_and_nodes(console: Console) -> None:
    def is_whole(overview: Any) -> bool:
        are_there = [each["available"] for each in overview["stores"]]
        are_away = [each["unavailable"] for each in overview["nodes"]]
        return all(are_there) and are_away == [[], []]

    overview = console.once(is_whole, "/console/overview")
    store, channels = overview["stores"]
    assert (store["kind"], store["name"], store["available"]) == ("queues", "default", True)
    assert store["memory_used"] > 0
    assert store["persistence"]["aof"] is False
    assert (channels["kind"], channels["available"]) == ("channels", True)
    for node in overview["nodes"]:
        assert node["memory"] > 1_000_000
        assert node["cpu"] >= 0
        assert node["loop_lag_ms"] >= 0
        assert node["unavailable"] == []
    text = "Store default does not persist anything"
    assert any(text in alarm["text"] for alarm in overview["alarms"])


@contextlib.contextmanager
def client(service: servers.RunningService) -> Iterator[tuple[ClientConnection, str]]:
    """Connects a client of channels in the default project; yields its id."""
    with connect(f"ws://127.0.0.1:{service.port}/connection/websocket") as socket:
        socket.send('{"id": 1, "connect": {}}')
        found = json.loads(socket.recv())["connect"]["client"]
        socket.send('{"id": 2, "subscribe": {"channel": "news:a"}}')
        socket.recv()
        yield socket, found


def test_connections_of_all_nodes_are_listed_and_ended(service: servers.RunningService) -> None:
    console = Console(service.url, "default")
    with contextlib.ExitStack() as stack:
        stack.enter_context(console.http)
        clients = [stack.enter_context(client(service)) for _ in range(5)]

        def listed(matching: int, **query: object) -> Any:
            path = "/console/connections"
            page = console.once(lambda page: page["matching"] == matching, path, **query)
            return page["connections"]

        found = listed(5)
        assert {each["client"] for each in found} == {id for _, id in clients}
        for each in found:
            assert (each["transport"], each["address"]) == ("websocket", "127.0.0.1")
            assert (each["channels"], each["subscriptions"]) == (["news:a"], 1)
        assert [each["age"] for each in found] == sorted(each["age"] for each in found)
        first = listed(5, limit=2) + listed(5, limit=2, offset=2)
        assert [each["client"] for each in first] == [each["client"] for each in found[:4]]
        assert listed(0, transport="sse") == []
        assert len(listed(5, address="127.0", user="")) == 5
        answer = console.http.post("/api/disconnect", json={"client": clients[0][1], "user": ""})
        assert answer.json() == {"result": {}}
        assert clients[0][1] not in {each["client"] for each in listed(4)}


def test_connections_of_another_project_are_not_shown(
    service: servers.RunningService, console: Console
) -> None:
    with client(service):
        assert console.get("/console/connections") == {"connections": [], "matching": 0}


def test_channels_are_listed_with_subscribers_and_rates(service: servers.RunningService) -> None:
    console = Console(service.url, "default")
    with console.http, client(service), client(service):
        # Clients of the tests before may have left only a moment ago.
        console.once(
            lambda page: [each["subscribers"] for each in page["channels"]] == [2],
            "/console/channels",
            channel="news:a",
        )

        def has_rate() -> bool:
            (found,) = console.get("/console/channels", channel="news:a")["channels"]
            assert (found["name"], found["subscribers"]) == ("news:a", 2)
            if found["published"] == 0:  # it is known now
                publication = {"channel": "news:a", "data": 1}
                assert "result" in console.http.post("/api/publish", json=publication).json()
            return bool(found["published"])

        servers.wait_for(has_rate, "a rate")
        for pattern in ("", "news:*"):
            listed = console.get("/console/channels", pattern=pattern)["channels"]
            assert [each["name"] for each in listed] == ["news:a"]
        for other in ({"pattern": "n"}, {"channel": "news:*"}):
            assert console.get("/console/channels", **other) == {"channels": []}
        # The server API tells what Centrifugo's does, and no more.
        listed = console.http.post("/api/channels", json={}).json()
        assert listed == {"result": {"channels": {"news:a": {"num_clients": 2}}}}


def test_channels_of_another_project_are_not_listed(
    service: servers.RunningService, console: Console
) -> None:
    with client(service):
        assert console.get("/console/channels") == {"channels": []}
        assert console.get("/console/channels", channel="news:a") == {"channels": []}


def test_options_of_a_channel_are_those_of_its_namespace(console: Console) -> None:
    found = console.get("/console/namespace", channel="news:today")
    assert (found["channel"], found["options"]["history_size"]) == ("news:today", 5)
    answer = console.http.get("/console/namespace?channel=unknown:today")
    assert (answer.status_code, answer.json()["description"]) == (400, "unknown channel")


# Faults


def test_store_that_is_full_or_stands_still_is_an_alarm_within_a_second(project: str) -> None:
    with (
        running_clock() as clock,
        servers.redis_server() as redis,
        servers.service(redis.uri, options=OPTIONS) as running,
        (console := Console(running.url, project)).http,
    ):
        console.post("q", {"body": 0})
        assert console.names() == ["q"]
        largest = f"Its largest queues: q of {project} (1 message, about "
        with redis.client() as client:
            client.config_set("maxmemory-policy", "allkeys-lru")

            def is_told() -> bool:
                # Again and again: an empty Redis has in use what its connections just need.
                client.config_set("maxmemory", round(1.15 * client.info("memory")["used_memory"]))
                return console.alarm(largest)

            servers.wait_for(is_told, "the alarm about memory")
        evicts = "Store default evicts keys when it is full"
        servers.wait_for(lambda: console.alarm(evicts), "the alarm about eviction")
        redis.signal(signal.SIGSTOP)
        try:
            # What was told a moment ago is told again.
            servers.wait_for(lambda: console.alarm("Store default is away"), "the alarm")
            began = clock()
            overview = console.overview()
            assert clock() - began < PROMPT
            alarm = overview["alarms"][0]
            assert (alarm["severity"], alarm["subject"]) == ("critical", "store default")
            assert alarm["remedy"]
            assert [each["available"] for each in overview["stores"]] == [False] * 3
            assert len(overview["nodes"]) == 1
            began = clock()
            assert [each["name"] for each in console.get("/console/queues")["queues"]] == ["q"]
            assert clock() - began < PROMPT
        finally:
            redis.signal(signal.SIGCONT)
        servers.wait_for(
            lambda: all(each["available"] for each in console.overview()["stores"]), "the store"
        )
        servers.wait_for(lambda: not console.alarm("is away"), "the end of the alarm")


def test_pool_that_is_lost_is_an_alarm_and_its_queues_are_shown_as_known(project: str) -> None:
    with (
        servers.redis_server() as redis,
        servers.redis_server() as lost,
        servers.service(redis.uri, options=OPTIONS) as running,
        (console := Console(running.url, project)).http,
    ):
        console.http.put("/v2/queues/near")
        create_in_pool(redis.uri, lost.uri, project, "far")
        servers.wait_for(lambda: console.names() == ["far", "near"], "the queue in the pool")
        lost.signal(signal.SIGKILL)
        servers.wait_for(lambda: console.alarm("Store p1 is away"), "the alarm")
        servers.wait_for(lambda: console.queues()["unavailable"] == ["p1"], "the store's name")
        page = console.queues()
        assert [(each["name"], each["store"]) for each in page["queues"]] == [
            ("far", "p1"),
            ("near", "default"),
        ]

        def is_p1_alone_away(overview: Any) -> bool:
            stores = {each["name"]: each for each in overview["stores"]}
            found = [stores[name]["available"] for name in ("p1", "default") if name in stores]
            return found == [False, True] and stores["p1"]["queues"] == 1

        console.once(is_p1_alone_away, "/console/overview")
        answer = console.http.get("/console/queues/far/history")
        assert (answer.status_code, "p1" in answer.json()["description"]) == (503, True)


def create_in_pool(uri: str, pool: str, project: str, queue: str) -> None:
    """Adds a pool p1, and creates a queue in it."""

    async def create() -> None:
        driver = pools.create(uri, uri, PATIENT_OPTIONS)
        await driver.start()
        record = Pool(name="p1", uri=pool, weight=100)
        await driver.control.pools.put(record, canonical=pool)
        await driver.queues.create(project, queue, {})
        await driver.close()

    asyncio.run(create())


@pytest.mark.nightly
async def test_ten_thousand_queues_are_listed_at_once(project: str) -> None:
    number = 10_000

    with (
        running_clock() as clock,
        servers.redis_server() as redis,
        servers.service(redis.uri, options=OPTIONS) as running,
        (console := Console(running.url, project)).http,
    ):
        driver = pools.create(redis.uri, redis.uri, PATIENT_OPTIONS)
        await driver.start()
        message = [NewMessage(body=b"0", ttl=3600)]

        async def post(name: str) -> None:
            await driver.messages.post(
                project, name, message, client="test", default_ttl=60, size=0
            )

        for begin in range(0, number, 1000):
            names = [f"queue-{each:05}" for each in range(begin, begin + 1000)]
            await asyncio.gather(*map(post, names))
        await driver.close()
        began = clock()
        console.get("/console/queues")
        assert clock() - began < PROMPT  # a part of them, if the machine is busy
        page = console.queues(sort="name", order="desc", offset=9_000, limit=1000)
        assert (page["total"], len(page["queues"])) == (number, 1000)
        assert [page["queues"][0]["name"], page["queues"][-1]["name"]] == [
            "queue-00999",
            "queue-00000",
        ]
        assert console.overview()["totals"]["messages"] == number
