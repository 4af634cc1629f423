# SPDX-License-Identifier: Apache-2.0
"""The store behind the API: guarantees that are known to be broken elsewhere.

R28 to R31 are numbers of a list of defects; each test is named after the guarantee of this service.
"""

from __future__ import annotations

import re
import signal
import threading
import uuid
from collections.abc import Iterator
from importlib import resources

import httpx
import pytest
from redis.crc import key_slot

from tests.api.client import ZaqarTestClient, refused
from tests.support import fixtures, servers
from tests.support.backends import Backend
from tests.support.stores import PATIENT_OPTIONS, ContractStore
from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.storage.redis import create

SCRIPTS = sorted(
    file.name.removesuffix(".lua")
    for file in resources.files("zaqar_redis.keyspace").joinpath("lua").iterdir()
    if file.name.endswith(".lua")
)
#: Local names in the scripts that stand for one of several declared keys.
ALIASES = {
    "waiting": {"claimed", "delayed"},
    "source": {"messages", "ready"},
    "pool_queues": {"queues"},
    "typed": set(keys.QueueKeys.__slots__) - {"feed", "live"},  # those are PUB/SUB channels
    "state": {"claimed", "delayed", "ready"},
    "other": {"claimed", "delayed", "ready"},
    "set": {"messages", "claimed", "delayed", "ready", "expiry"},
    "hash": {"bodies", "holds"},
    "zset": {"claimed", "delayed", "ready", "expiry"},
    "found": {"subscriptions", "subscribers"},
    "ids": {"subscription_ids", "subscription_ends"},
    "listing": {"pending_ids", "pending_due", "pending_ends"},
    "ends": {"expiry", "delayed", "claimed", "leases", "subscription_ends"},
}
#: Commands that take no key; a channel is none.  publish: the local of ``--#pubsub``.
KEYLESS = {"TIME", "PUBLISH", "publish"}
#: Commands all of whose arguments are keys.
ALL_KEYS = {"UNLINK", "DEL", "EXISTS"}


def _reached(source: str) -> str:
    """Returns the source without those shared functions that the script never calls."""
    for function in re.finditer(
        r"^local function (\w+)\(.*?^end\n", source, re.DOTALL | re.MULTILINE
    ):
        if len(re.findall(rf"\b{function[1]}\b", source)) == 1:
            source = source.replace(function[0], "")
    return source


def _aliases(source: str) -> dict[str, set[str]]:
    """Returns the local names that a script gives its keys, and the keys of each."""
    found = {name: set(of) for name, of in ALIASES.items()}
    lists: dict[str, str] = {}
    for names, values in re.findall(r"^ *local ([\w, ]+) = ([\w, ]+|{[\w, ]+})$", source, re.M):
        if values.startswith("{"):
            lists[names] = values.strip("{}")
        else:
            pairs = zip(names.split(", "), values.split(", "), strict=True)
            found |= {name: {value} for name, value in pairs}
    for name, values in re.findall(r"for _, (\w+) in ipairs\({?([\w, ]+)}?\)", source):
        found.setdefault(name, set(lists.get(values, values).split(", ")))
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_touches_only_the_keys_it_declares(name: str) -> None:
    """R28."""
    script = Script(name)
    declared = set(script.keys)
    source = _reached(script.source)
    aliases = _aliases(source)
    calls = re.findall(r"(?:redis\.call|fix)\(\s*('?)(\w+)'?\s*,?([^()]*)", source)
    assert calls
    for quoted, command, rest in calls:
        if command in KEYLESS:
            continue
        assert quoted or command == "range", f"{command} is not written out"
        arguments = [argument.strip() for argument in rest.split(",")]
        for key in arguments if command in ALL_KEYS else arguments[:1]:
            if name == "sweep_list" and key in ("index", "unpack"):
                continue  # all its keys are of one kind, without names
            key = "generation" if key == "unpack" else key
            assert aliases.get(key, {key}) <= declared, f"{name}: {command} {key}"


@pytest.mark.parametrize(
    ("project", "queue"),
    [("p", "q"), ("{a}", "q"), ("a}{b", "q"), ("}", "a.b"), ("{", "q"), ("a/b", "q"), ("{}", "q")],
)
def test_all_keys_of_a_queue_are_in_one_slot(project: str, queue: str) -> None:
    """R28, for hash tags: they differ between queues, whatever the project's name."""
    of_queue = keys.of_queue(project, queue)
    names = [getattr(of_queue, slot) for slot in keys.QueueKeys.__slots__]
    assert len({key_slot(name) for name in names}) == 1
    others = {key_slot(keys.of_queue(project, f"{queue}{number}").queue) for number in range(20)}
    assert len(others) > 10


def test_time_is_that_of_the_store(
    redis_server: Backend, store: ContractStore, api: ZaqarTestClient
) -> None:
    """R29: not of the host that serves a request, and finer than a second."""
    with redis_server.client() as client:

        def now() -> int:
            seconds, microseconds = client.time()
            return int(seconds) * 1000 + int(microseconds) // 1000

        driver = create(redis_server.uri, PATIENT_OPTIONS)
        before = now()
        ids = api.send("q", *range(5))
        after = now()
    store.run(driver.start())
    found = store.run(driver.messages.get(api.project, "q", ids))
    store.run(driver.close())
    assert len(found) == 5
    for message in found:
        assert before <= message.created <= after
        assert message.expires == message.created + 3600 * 1000


def test_verbs_agree_on_the_time_whoever_calls_them(
    store: ContractStore, redis_server: Backend
) -> None:
    """R29: a second host with another clock makes no difference."""
    with redis_server.client() as client:
        store.clock.now = 0  # "the store's own"
        store.post("a")
        before = client.time()[0] * 1000
        claim = store.claim(ttl=60).claim_id
        after = (client.time()[0] + 1) * 1000
        (_, lease) = client.zrange(
            keys.of_queue(store.project, "q").leases, 0, -1, withscores=True
        )[0]
        assert before <= lease - 60_000 <= after
    assert store.renew(claim, 60)


#: A Redis that may be stopped and reconfigured.
lone_redis = fixtures.redis()


@pytest.fixture(scope="module")
def patient(lone_redis: servers.RedisServer) -> Iterator[servers.RunningService]:
    """A service that waits for the store longer than a test pauses it."""
    with servers.service(lone_redis.uri, options={"redis": {"timeout": 60}}) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(lone_redis: servers.RedisServer) -> Iterator[servers.RunningService]:
    """A service whose timeout for the store is some seconds."""
    with servers.service(lone_redis.uri, options={"redis": {"timeout": 3}}) as running:
        yield running


@pytest.fixture
def slow(http: httpx.Client, hasty: servers.RunningService, project: str) -> ZaqarTestClient:
    return ZaqarTestClient(http, hasty.url, project)


def test_requests_outlast_a_short_pause_of_the_store(
    http: httpx.Client,
    patient: servers.RunningService,
    lone_redis: servers.RedisServer,
    project: str,
) -> None:
    """R30."""
    api = ZaqarTestClient(http, patient.url, project)
    api.send("q", 1)
    lone_redis.signal(signal.SIGSTOP)
    timer = threading.Timer(0.4, lone_redis.signal, [signal.SIGCONT])
    timer.start()
    assert api.post("q", {"body": 2}).status_code == 201
    timer.join()
    assert api.bodies("q") == [1, 2]


def test_long_pause_of_the_store_is_reported_and_posts_nothing_twice(
    slow: ZaqarTestClient, lone_redis: servers.RedisServer
) -> None:
    """R30: a request with unknown outcome is not repeated by the service."""
    slow.send("q", 1)
    lone_redis.signal(signal.SIGSTOP)
    answers = [slow.post("q", {"body": 2}, key="once"), slow.post("q", {"body": 2}, key="once")]
    lone_redis.signal(signal.SIGCONT)
    for answer in answers:
        refused(answer, 503)
        assert int(answer.headers["Retry-After"]) >= 1
    servers.wait_for(
        lambda: slow.post("q", {"body": 2}, key="once").status_code == 201, "the store"
    )
    assert slow.bodies("q") == [1, 2]
    assert [item["body"] for item in slow.pop("q", 20).json()["messages"]] == [1, 2]


@pytest.fixture(scope="module")
def port(lone_redis: servers.RedisServer) -> int:
    """The Redis of this module, over TCP too."""
    return lone_redis.open_port()


def _database_of(store: ContractStore, lone_redis: servers.RedisServer, uri: str) -> int:
    """Returns the database that holds a queue created through *uri*."""
    driver = create(uri, {})
    project = f"p-{uuid.uuid4()}"

    store.run(driver.start())
    try:
        assert store.run(driver.queues.create(project, "q", {}))
    finally:
        store.run(driver.close())
    with lone_redis.client() as client:
        for database in range(16):
            client.execute_command("SELECT", database)
            if client.exists(keys.of_queue(project, "q").queue):
                return database
    raise AssertionError("the queue is in no database")


@pytest.mark.parametrize(
    ("form", "database"),
    [
        ("redis://127.0.0.1:{port}", 0),
        ("redis://127.0.0.1:{port}/", 0),
        ("redis://127.0.0.1:{port}/0", 0),
        ("redis://127.0.0.1:{port}/7", 7),
        ("redis://localhost:{port}/3", 3),
        ("redis://default@127.0.0.1:{port}/1", 1),
        ("redis://127.0.0.1:{port}?db=5", 5),
        ("unix://{socket}", 0),
        ("unix://{socket}?db=9", 9),
    ],
)
def test_a_uri_names_its_database(
    store: ContractStore, lone_redis: servers.RedisServer, port: int, form: str, database: int
) -> None:
    """R31."""
    uri = form.format(port=port, socket=lone_redis.socket)
    assert _database_of(store, lone_redis, uri) == database


@pytest.mark.parametrize("form", ["redis://:{0}@127.0.0.1:{1}/2", "redis://me:{0}@127.0.0.1:{1}/2"])
def test_a_uri_names_user_and_password(
    store: ContractStore, lone_redis: servers.RedisServer, port: int, form: str
) -> None:
    """R31."""
    with lone_redis.client() as client:
        client.execute_command("ACL", "SETUSER", "me", "on", ">s3cret", "~*", "&*", "+@all")
        client.config_set("requirepass", "s3cret")
        try:
            uri = form.format("s3cret", port)
            assert "s3cret" not in redact_password(uri)
            driver = create(uri, {})
            store.run(driver.start())
            store.run(driver.ping())
            store.run(driver.close())
            wrong = create(form.format("guess", port), {"connect_timeout": 0.2})
            store.run(wrong.start())
            with pytest.raises(errors.StoreUnavailable):
                store.run(wrong.ping())
            store.run(wrong.close())
        finally:
            client.config_set("requirepass", "")


@pytest.mark.parametrize(
    "uri", ["rediss://host", "rediss://me@host:6380/2", "redis://me@host", "redis://[::1]:7000/1"]
)
def test_uris_of_the_store_are_accepted(uri: str) -> None:
    """R31: TLS, and a user without a password."""
    assert keyspace.validate_uri(uri) == uri
    assert keyspace.client(uri, BatchSettings())


@pytest.mark.parametrize(
    "uri", ["", "redis", "http://host", "redis://host/name", "redis://host:port", "unix://"]
)
def test_invalid_uris_are_refused_at_once(uri: str) -> None:
    """R31: no part of a URI is ignored silently."""
    with pytest.raises(errors.BadConfiguration, match="storage URI"):
        keyspace.validate_uri(uri)
