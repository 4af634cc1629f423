# SPDX-License-Identifier: Apache-2.0
"""A store for tests: synchronous, short to call, with a clock of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from redis.asyncio.connection import AbstractConnection

from tests.support import servers
from tests.support.clock import ManualClock
from zaqar_redis import errors, formats
from zaqar_redis.check_records import CheckResult, Finding
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Call, RedisCommand
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.pool_records import Pool
from zaqar_redis.records import (
    Attributes,
    ClaimResult,
    ClaimSummary,
    IdempotencyKey,
    Lease,
    Message,
    MessageListing,
    NewMessage,
    Page,
    PeekPage,
    PostResult,
    Queue,
    Stats,
)
from zaqar_redis.storage.administration import Administration
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.redis import RedisDriver
from zaqar_redis.storage.redis.control import RedisControl
from zaqar_redis.storage.subscriptions import Subscriptions

T = TypeVar("T")

CLIENT = "8f4c1f2e-3c56-4b5e-9e0a-6f5a5d0c7b11"
OTHER_CLIENT = "b7a1d9b0-0d0f-4f52-8c8c-2f8d8f3f1a22"
#: Default TTL of posted messages, in seconds.
TTL = 3600

#: Kinds of keys of a queue, but for the indexes, which all queues of a slot share.
OWN_KEYS = sorted(set(keys.QueueKeys.__slots__) - {"sweep_index", "delivery_index"})

#: Ids that no queue ever issued, some of them malformed.
STRANGE_IDS = [
    str(uuid.UUID(int=0)),
    str(uuid.UUID(int=2**128 - 1)),
    "51db6f78-c508-11e7-9e0f-0242ac110002",
    "",
    "1",
    "messages",
    "zr:queues:p",
    "☃",
    "0" * 300,
]


class ProcessDied(Exception):
    """The simulated process has died: nothing after this is executed."""


#: On a machine that stands still for seconds, its Redis is there all the same.
PATIENT = BatchSettings(timeout=30, connect_timeout=servers.CONNECT_TIMEOUT)
#: the same, for drivers that are given options
PATIENT_OPTIONS = {"timeout": 30, "connect_timeout": servers.CONNECT_TIMEOUT}


class Crash:
    """The death of a process, before it sends a script for the time *after* some others."""

    def __init__(self, script: str, after: int) -> None:
        self._script = script
        self._after = after
        self._dead = False

    def before(self, script: str) -> None:
        """Raises ProcessDied, then and ever after."""
        if script == self._script:
            self._dead = self._dead or self._after == 0
            self._after -= 1
        if self._dead:
            raise ProcessDied


class WrappedClient:
    """A client that passes everything on; tests change a part of it."""

    def __init__(self, client: keyspace.AsyncClient) -> None:
        self._client = client
        self.name = client.name
        self.uri = client.uri
        self.settings = client.settings

    async def start(self) -> None:
        await self._client.start()

    async def close(self) -> None:
        await self._client.close()

    async def call(self, call: RedisCommand) -> Any:
        return await self._client.call(call)

    async def command(self, *parts: bytes | str | int) -> Any:
        return await self._client.command(*parts)

    async def identity(self) -> str:
        return await self._client.identity()

    @property
    def reader(self) -> Any:
        return self

    def connection(self) -> AbstractConnection:
        return self._client.connection()

    async def until_replaced(self, connection: AbstractConnection) -> None:
        await self._client.until_replaced(connection)

    def by_node(
        self, names: Sequence[bytes]
    ) -> Sequence[tuple[keyspace.AsyncClient, Sequence[bytes]]]:
        found = self._client.by_node(names)
        return [(self if node is self._client else node, some) for node, some in found]

    def nodes(self) -> Sequence[keyspace.AsyncClient]:
        return [self if node is self._client else node for node in self._client.nodes()]


class CrashBeforeScript(WrappedClient):
    """A client of a process that dies before it sends a certain script, or plain command."""

    def __init__(self, client: keyspace.AsyncClient, crash: Crash) -> None:
        super().__init__(client)
        self._crash = crash

    async def call(self, call: RedisCommand) -> Any:
        self._crash.before(call.script.name if isinstance(call, Call) else str(call.command()[0]))
        return await super().call(call)


def new_messages(names: Iterable[str], ttl: int | None, delay: int | None) -> list[NewMessage]:
    return [NewMessage(body=json.dumps(name).encode(), ttl=ttl, delay=delay) for name in names]


def names(messages: Iterable[Message]) -> list[str]:
    """Returns the decoded bodies, which name the messages."""
    return [json.loads(message.body) for message in messages]


class ContractStore:
    """A started driver whose calls block until they are done.

    The default queue is "q" of the test's project.
    """

    driver: Driver

    def __init__(self, uri: str, runner: asyncio.Runner, project: str) -> None:
        self.clock = ManualClock()
        self.project = project
        self.uri = uri
        self.runner = runner
        self._parts: list[tuple[RedisDriver, keyspace.AsyncClient]] = []
        self._make(uri)

    def _make(self, uri: str) -> None:
        self.driver = self.part(uri)

    def part(self, uri: str) -> RedisDriver:
        """Returns a driver that uses the clock of the test."""
        client = self.client(uri)
        driver = RedisDriver(client, now=self.clock)
        self._parts.append((driver, client))
        return driver

    def client(self, uri: str) -> keyspace.AsyncClient:
        return keyspace.client(uri, PATIENT)

    def clients(self) -> list[keyspace.AsyncClient]:
        """Returns a client of each store."""
        return [client for _, client in self._parts]

    def command(self, *parts: bytes | str | int) -> list[Any]:
        """Sends a command to each store; returns their replies."""
        return [self.run(client.command(*parts)) for _, client in self._parts]

    def key_count(self) -> int:
        """Returns how many keys the store has."""
        nodes = [node for _, client in self._parts for node in client.nodes()]
        return sum(self.run(node.command("DBSIZE")) for node in nodes)

    def reset(self) -> None:
        """Empties the store."""
        for _, client in self._parts:
            for node in client.nodes():
                self.run(node.command("FLUSHDB"))

    @property
    def subscriptions(self) -> Subscriptions:
        assert self.driver.subscriptions
        return self.driver.subscriptions

    def sweep(self, lease: float = 60) -> int:
        assert self.driver.sweeper
        return self.run(self.driver.sweeper.sweep(lease))

    def run(self, awaitable: Awaitable[T]) -> T:
        # Not Runner.run: it formats its task for the signal module, at each call.
        return self.runner.get_loop().run_until_complete(awaitable)

    def wait_for(self, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        """Runs the event loop until *condition* holds."""

        async def polled() -> None:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110  # any condition, not an event
                    await asyncio.sleep(0.005)

        try:
            self.run(polled())
        except TimeoutError as error:
            raise TimeoutError(what) from error

    def wait_until_back(self) -> None:
        """Runs the event loop until the store answers."""

        async def pinged() -> None:
            async with asyncio.timeout(60):
                while True:
                    with contextlib.suppress(errors.StoreUnavailable):
                        return await self.driver.ping()
                    await asyncio.sleep(0.01)

        self.run(pinged())

    @contextlib.contextmanager
    def dying_before(self, script: str, after: int = 0) -> Iterator[None]:
        """Lets the process die before *script*, but not the first *after* times.

        A plain command is named by its first word.
        """
        clients = [
            (resource, client)
            for driver, client in self._parts
            for resource in (driver.queues, driver.messages, driver.claims, driver.administration)
        ]
        crash = Crash(script, after)
        for resource, client in clients:
            resource.client = CrashBeforeScript(client, crash)
        try:
            yield
            raise AssertionError(f"{script} was not needed")
        except ProcessDied:
            pass
        finally:
            for resource, client in clients:
                resource.client = client

    def create(self, queue: str = "q", **metadata: Any) -> bool:
        if metadata.get("_priorities") or metadata.get("_group_mode"):
            self.upgrade()
        return self.run(self.driver.queues.create(self.project, queue, metadata))

    def upgrade(self) -> None:
        """Marks the store, and each pool, as one that no older release works on."""
        for driver, _ in self._parts:
            mark = driver.ownership.format
            self.run(mark.raise_to(formats.CURRENT.version, formats.CURRENT.needs))

    def queue(self, queue: str = "q") -> Queue | None:
        return self.run(self.driver.queues.get(self.project, queue))

    def existing_queue(self, queue: str = "q") -> Queue:
        found = self.queue(queue)
        assert found
        return found

    def queues(
        self, after: str = "", limit: int = 100, wanted: Callable[[Queue], bool] | None = None
    ) -> Page[Queue]:
        return self.run(self.driver.queues.list(self.project, after, limit, wanted))

    def stats(self, queue: str = "q") -> Stats:
        return self.run(self.driver.queues.stats(self.project, queue))

    def post(
        self,
        *bodies: str,
        queue: str = "q",
        ttl: int | None = TTL,
        delay: int | None = None,
        client: str = CLIENT,
        size: int = 0,
        idempotency_key: IdempotencyKey | None = None,
        attributes: Attributes | None = None,
    ) -> PostResult:
        new = new_messages(bodies, ttl, delay)
        messages = [msgspec.structs.replace(each, attributes=attributes) for each in new]
        return self.send(messages, queue, client, size, idempotency_key)

    def send(
        self,
        messages: Sequence[NewMessage],
        queue: str = "q",
        client: str = CLIENT,
        size: int = 0,
        idempotency_key: IdempotencyKey | None = None,
    ) -> PostResult:
        return self.run(
            self.driver.messages.post(
                self.project,
                queue,
                messages,
                client=client,
                default_ttl=TTL,
                size=size,
                idempotency_key=idempotency_key,
            )
        )

    def counts(self, queue: str = "q") -> tuple[int, int, int]:
        """Returns the counts of free, claimed and all messages."""
        found = self.stats(queue)
        return found.free, found.claimed, found.total

    def post_many(self, number: int, queue: str = "q", ttl: int = TTL) -> PostResult:
        return self.post(*map(str, range(number)), queue=queue, ttl=ttl)

    def page(
        self,
        after: str | None = None,
        limit: int = 100,
        *,
        queue: str = "q",
        hide: str | None = None,
        claimed: bool = False,
        delayed: bool = False,
        reverse: bool = False,
    ) -> Page[Message]:
        listing = MessageListing(
            limit,
            after,
            hide_client=hide,
            include_claimed=claimed,
            include_delayed=delayed,
            reverse=reverse,
        )
        return self.run(self.driver.messages.list(self.project, queue, listing))

    def visible(self, queue: str = "q", *, delayed: bool = False) -> list[str]:
        """Returns the names on the first page."""
        return names(self.page(queue=queue, delayed=delayed).items)

    def listed(self, queue: str = "q") -> list[str]:
        """Returns the names of all messages, in every state, read page by page."""
        found: list[str] = []
        after: str | None = None
        while True:
            page = self.page(after, 500, queue=queue, claimed=True, delayed=True)
            found += names(page.items)
            if len(page.items) < 500:
                return found
            after = page.marker

    def create_for_processes(self) -> None:
        """Creates the queue "q" at the time of the processes that share the store."""
        self.clock.now = round(time.time() * 1000)
        self.create()

    def wait_for_messages(self, number: int, queue: str) -> None:
        servers.wait_for(lambda: len(self.listed(queue)) >= number, f"all messages in {queue}")

    def get(self, *ids: str, queue: str = "q") -> list[Message]:
        return list(self.run(self.driver.messages.get(self.project, queue, ids)))

    def delete(
        self,
        *ids: str,
        queue: str = "q",
        claims: Iterable[str | None] | None = None,
        force: bool = False,
    ) -> None:
        """Deletes messages; a claim of None, the result of an empty claim, is left out."""
        holders = None if claims is None else [claim for claim in claims if claim]
        self.run(self.driver.messages.delete(self.project, queue, ids, claims=holders, force=force))

    def pop(self, limit: int = 100, queue: str = "q") -> list[str]:
        return names(self.run(self.driver.messages.pop(self.project, queue, limit)).messages)

    def claim(
        self,
        limit: int = 100,
        *,
        queue: str = "q",
        ttl: int = 60,
        grace: int = 60,
        client: str = "",
        ttl_min: int = 0,
    ) -> ClaimResult:
        lease = Lease(ttl, grace, ttl_min)
        return self.run(
            self.driver.claims.create(self.project, queue, lease, limit=limit, client=client)
        )

    def held(self, claim: str | None, queue: str = "q") -> list[str] | None:
        """Returns the names of the claim's messages; None when the claim does not exist."""
        found = self.run(self.driver.claims.get(self.project, queue, claim or ""))
        return None if found is None else names(found.messages)

    def renew(
        self, claim: str | None, ttl: int, grace: int = 60, queue: str = "q", ttl_min: int = 0
    ) -> bool:
        lease = Lease(ttl, grace, ttl_min)
        renewed = self.run(self.driver.claims.update(self.project, queue, claim or "", lease))
        return renewed is not None

    def _administration(self) -> Administration:
        assert self.driver.administration
        return self.driver.administration

    def peek(
        self, state: str = "", after: str | None = None, limit: int = 100, queue: str = "q"
    ) -> PeekPage:
        return self.run(
            self._administration().peek(self.project, queue, state=state, after=after, limit=limit)
        )

    def claims(self, after: str = "", limit: int = 100, queue: str = "q") -> Page[ClaimSummary]:
        return self.run(
            self._administration().list_claims(self.project, queue, after=after, limit=limit)
        )

    def move(
        self, *ids: str, target: str = "other", queue: str = "q", restore: bool = False
    ) -> list[str]:
        return list(
            self.run(
                self._administration().move(
                    self.project, queue, ids, target=target, restore=restore
                )
            )
        )

    def copy(self, *ids: str, target: str = "other", queue: str = "q") -> list[str]:
        return list(self.run(self._administration().copy(self.project, queue, ids, target=target)))

    def release(self, claim: str | None, queue: str = "q") -> None:
        self.run(self.driver.claims.delete(self.project, queue, claim or ""))

    def renew_some(
        self,
        claim: str | None,
        *ids: str,
        ttl: int,
        grace: int = 60,
        queue: str = "q",
        ttl_min: int = 0,
    ) -> Sequence[str] | None:
        lease = Lease(ttl, grace, ttl_min)
        return self.run(self.driver.claims.update(self.project, queue, claim or "", lease, ids=ids))

    def release_some(
        self,
        claim: str | None,
        *ids: str,
        delay: int | None = None,
        queue: str = "q",
        reason: str = "",
    ) -> Sequence[str] | None:
        """Without ids all that the claim holds."""
        return self.run(
            self.driver.claims.release(
                self.project, queue, claim or "", ids=ids or None, delay=delay, reason=reason
            )
        )


class PooledContractStore(ContractStore):
    """A pooled driver over ``pooled://<default pool>|<pool>|<pool>``."""

    driver: PooledDriver

    def _make(self, uri: str) -> None:
        default, *self._pools = uri.removeprefix(POOLED).split("|")
        control = RedisControl(keyspace.client(default, PATIENT), self.clock)
        self.driver = PooledDriver(self.part(default), control, lambda pool: self.part(pool.uri))

    def begin(self) -> None:
        """Creates the pools that do not exist yet."""
        for number, uri in enumerate(self._pools, 1):
            pool = Pool(name=f"p{number}", uri=uri, weight=100)
            self.run(self.driver.control.pools.put(pool, canonical=uri))
        self.driver.router.invalidate(None)
        self.run(
            self.driver.router.stores.routes(list(self.run(self.driver.router.stores.pools())))
        )

    def reset(self) -> None:
        super().reset()
        self.begin()

    def pool_of(self, queue: str = "q") -> str:
        found = self.run(self.driver.control.catalogue.locate(self.project, queue)).pool
        assert found
        return found

    def other_pool(self, queue: str = "q") -> str:
        return "p2" if self.pool_of(queue) == "p1" else "p1"

    def route(self, queue: str = "q") -> tuple[str, str]:
        """Returns the pool of the queue, and another one."""
        return self.pool_of(queue), self.other_pool(queue)

    def uri_of(self, pool: str) -> str:
        return self._pools[("p1", "p2").index(pool)]


def checked(store: ContractStore, repair: bool = False) -> list[CheckResult]:
    async def steps() -> list[CheckResult]:
        assert store.driver.checker
        return [step async for step in store.driver.checker.check(repair)]

    return store.run(steps())


def findings(store: ContractStore, repair: bool = False) -> list[Finding]:
    return [finding for step in checked(store, repair) for finding in step.findings]


POOLED = "pooled://"


@contextlib.contextmanager
def other_process(store: ContractStore) -> Iterator[ContractStore]:
    """The same store as another process opens it, in the same event loop."""
    other = type(store)(store.uri, store.runner, store.project)
    other.run(other.driver.start())
    try:
        yield other
    finally:
        other.run(other.driver.close())


@contextlib.contextmanager
def opened(uri: str, project: str) -> Iterator[ContractStore]:
    """A started store at *uri*, closed after the test."""
    with asyncio.Runner() as runner:
        store = (PooledContractStore if uri.startswith(POOLED) else ContractStore)(
            uri, runner, project
        )
        store.run(store.driver.start())
        if isinstance(store, PooledContractStore):
            store.begin()
        try:
            yield store
        finally:
            store.run(store.driver.close())


@contextlib.contextmanager
def opened_pools(uri: str, project: str) -> Iterator[PooledContractStore]:
    with opened(uri, project) as store:
        assert isinstance(store, PooledContractStore)
        yield store
