# SPDX-License-Identifier: Apache-2.0
"""Where queues are, for planners and tasks: the service's store, and its pools.

Planners ask the catalogue; tasks are told, and ask again only when a queue has moved.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from zaqar_redis import clock, errors
from zaqar_redis.keyspace import embedded, uris
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.keyspace.client import BlockingClient, Refused, printable
from zaqar_redis.keyspace.script import Verb
from zaqar_redis.records import Draft, Queue, Retry
from zaqar_redis.spark.options import Options
from zaqar_redis.storage import pooled
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.drivers.redis.control import Catalogue, Pools
from zaqar_redis.storage.drivers.redis.messages import Messages
from zaqar_redis.storage.drivers.redis.queues import Queues

T = TypeVar("T")

#: Names of queues that are read at once.
_PAGE = 100
#: How much longer than one answer a store may be away before a task gives up.
_PATIENCE = 3
#: Seconds for which it is believed where a queue is: far fewer than a store that it has
#: left remembers that.
_BELIEVED = 10.0
#: Seconds between tries at a store that is away, at first and at most.
_PAUSE, _PAUSE_MAX = 0.05, 1.0
#: Connections of a process: planners and tasks work with one thing at a time.
_CONNECTIONS = 8


@dataclass(frozen=True)
class Where:
    """What is needed to find queues; it travels to tasks."""

    uri: str
    control_uri: str
    project: str
    #: seconds for an answer
    timeout: float


class Away(errors.StoreUnavailable):
    """A queue was out of reach for longer than we wait."""

    message = (
        'The store of the queue "{queue}" of the project "{project}" cannot be reached: {why}; '
        'it was tried again for three times as long as the option "timeout" says'
    )
    code = 1707


@dataclass(frozen=True)
class Place:
    """Where a queue lives."""

    pool: str
    uri: str


def where(options: Options) -> Where:
    """Out of options.  Raises BadConfiguration."""
    uri = _usable("uri", options.uri())
    control = options["controlUri"]
    return Where(
        uri=uri,
        control_uri=_usable("controlUri", control) if control else uri,
        project=options["project"],
        timeout=options["timeout"],
    )


def _usable(name: str, uri: str) -> str:
    try:
        scheme = urlsplit(uri).scheme
        if scheme == "memory":
            raise errors.BadConfiguration("memory:// is within one process; Spark has several")
        if scheme == "embedded":
            return embedded.Place(uri).uri
        plain = uris.understood(uri)
        BlockingClient(plain, BatchSettings())
    except (errors.BadConfiguration, ValueError) as error:
        raise errors.BadConfiguration(f'option "{name}": {error}') from error
    return plain


class Stores:
    """Connections to stores, opened when they are needed.  For one process."""

    def __init__(self, at: Where) -> None:
        self.where = at
        self._settings = BatchSettings(timeout=at.timeout, connect_timeout=min(at.timeout, 5.0))
        self._clients: dict[str, BlockingClient] = {}
        self._pools: dict[str, str] = {}
        #: by queue: where it is, and until when that is believed
        self._known: dict[str, tuple[Place, float]] = {}
        control = self.client(at.control_uri)
        self._control_pools = Pools(control)
        self._catalogue = Catalogue(control, clock.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def client(self, uri: str) -> BlockingClient:
        client = self._clients.get(uri)
        if client is None:
            client = BlockingClient(uri, self._settings, _CONNECTIONS)
            self._clients[uri] = client
        return client

    def check(self, *, wait: bool = False) -> None:
        """Raises BadConfiguration that names the option when the store is of no use.

        With *wait*, a short absence is none of that.
        """
        for name, uri in (("uri", self.where.uri), ("controlUri", self.where.control_uri)):
            try:
                if wait:
                    self._again(partial(self._try, uri))
                else:
                    self._try(uri)
            except errors.Unavailable as error:
                why = f": {error.__cause__}" if error.__cause__ else ""
                raise errors.BadConfiguration(
                    f'option "{name}": {printable(uri)} cannot be reached{why}'
                ) from error
            except Refused as error:
                raise errors.BadConfiguration(
                    f'option "{name}": {printable(uri)} refuses: {error}'
                ) from error

    def _try(self, uri: str) -> None:
        self.client(uri).command("PING")
        if uri == self.where.control_uri:
            self._catalogue.locate(self.where.project, "").run()

    def place(self, queue: str, *, make: bool = False) -> Place:
        """Where a queue lives, or would be looked for; with *make*, it is given a place."""
        pool = self._pool(queue)
        if pool is None and make:
            self.settle(queue, make=True)
            pool = self._pool(queue)
        return Place(pool or DEFAULT, self.uri_of(pool or DEFAULT))

    def _pool(self, queue: str) -> str | None:
        return self._catalogue.locate(self.where.project, queue).run().pool

    def _believed(self, queue: str, make: bool) -> Place:
        """The same, as it was a moment ago."""
        found, until = self._known.get(queue) or (None, 0.0)
        if found is None or time.monotonic() > until:
            found = self.place(queue, make=make)
            if make or found.pool != DEFAULT:  # else somebody may give it a place any moment
                self._known[queue] = found, time.monotonic() + _BELIEVED
        return found

    def bury(
        self, project: str, queue: str, letter: Draft, *, client: bytes, retry: Retry
    ) -> Verb[None]:
        """How dead letters get to their queue."""
        store = self.client(self.place(queue, make=True).uri)
        return Messages(store, clock.store).bury(project, queue, letter, client=client, retry=retry)

    def uri_of(self, pool: str) -> str:
        """Raises StoreUnavailable when there is no such pool."""
        if pool == DEFAULT:
            return self.where.uri
        if pool not in self._pools:
            self._pools = {
                known.name: uris.understood(known.uri)
                for known in self._control_pools.list().run().items
            }
        try:
            return self._pools[pool]
        except KeyError:
            raise errors.StoreUnavailable(pool) from KeyError(f'there is no pool "{pool}"')

    def queues(self) -> list[str]:
        """Names of all queues of the project, in order."""
        pools = {DEFAULT, *self._catalogue.pools_of(self.where.project).run()}
        found: set[str] = set()
        for pool in pools:
            found.update(queue.name for queue in self._listed(self.uri_of(pool)))
        return sorted(found)

    def _listed(self, uri: str) -> Iterator[Queue]:
        queues = Queues(self.client(uri), clock.store)
        after = ""
        while True:
            page = queues.list(self.where.project, after, _PAGE, None).run()
            yield from page.items
            if len(page.items) < _PAGE:
                return
            after = page.marker

    def settle(self, queue: str, *, make: bool) -> None:
        """Wait until a queue that is on the move, or has no place yet, can be used.

        With *make*, a queue that is nowhere is given a place, as a post would do.
        Raises StoreUnavailable.
        """
        asyncio.run(self._settled(queue, make))

    async def _settled(self, queue: str, make: bool) -> None:
        driver = pooled.create(
            self.where.uri, self.where.control_uri, {"timeout": self.where.timeout}
        )
        project = self.where.project

        async def reach(store: Driver) -> Any:
            return await store.queues.get(project, queue)

        await driver.start()
        try:
            await driver.places.run(project, queue, reach, make=make)
        finally:
            await driver.close()

    def patiently(self, queue: str, act: Callable[[Place], T], *, make: bool = False) -> T:
        """What *act* gives where the queue lives; again after a move, or a short absence.

        *act* must be safe to do twice.  Raises Away when that is not enough.
        """
        try:
            return self._again(
                lambda: act(self._believed(queue, make)), partial(self.settle, queue, make=make)
            )
        except errors.Unavailable as error:
            why = error.__cause__ or error
            raise Away(queue=queue, project=self.where.project, why=why) from error

    def _again(self, act: Callable[[], T], settle: Callable[[], None] | None = None) -> T:
        """What *act* gives, however often it takes, within our patience; at gates, *settle*."""
        end = time.monotonic() + _PATIENCE * self.where.timeout
        pause = _PAUSE
        while True:
            try:
                return act()
            except errors.Unavailable as error:
                self._known.clear()  # it may have moved
                if time.monotonic() + pause > end:
                    raise
                if settle is not None and isinstance(error, errors.Gated):
                    settle()
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, _PAUSE_MAX)
