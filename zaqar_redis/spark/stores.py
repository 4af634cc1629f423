# SPDX-License-Identifier: Apache-2.0
"""The stores of queues, for planners and tasks: the service's store, and its pools.

Planners read the catalogue; tasks get a location, and look it up again only when the queue
has moved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar
from urllib.parse import urlsplit

from zaqar_redis import errors
from zaqar_redis.keyspace import blocking, embedded, keys, uris
from zaqar_redis.keyspace.blocking import BlockingClient
from zaqar_redis.keyspace.client import CommandRefused
from zaqar_redis.keyspace.script import Steps, Verb
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.pool_records import Pool
from zaqar_redis.spark.options import READS, SourceOptions
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.pools.controllers import RoutedQueues
from zaqar_redis.storage.pools.retry import Attempts, RetryPolicy
from zaqar_redis.storage.pools.router import Router
from zaqar_redis.storage.redis.blocking import BlockingRedisControl, BlockingRedisStore
from zaqar_redis.storage.redis.claims import RedisClaims

T = TypeVar("T")

#: Names of queues that are read at once.
_PAGE = 100
#: Timeouts of one answer for which a store may be unreachable before a task gives up.
_RETRY_TIMEOUTS = 3
#: Seconds for which the location of a queue is cached: far fewer than the store that it
#: has left keeps the tombstone.
_LOCATION_TTL_SECONDS = 10.0
#: Connections of a process: planners and tasks work with one thing at a time.
_CONNECTIONS = 8
#: A rank that no message has.
_NO_RANK = 0


@dataclass(frozen=True)
class StoreConfig:
    """What is needed to find queues; serialized to tasks."""

    uri: str
    control_uri: str
    project: str
    #: seconds for an answer
    timeout: float
    #: whether tasks read messages from replicas
    read_replicas: bool = False


class StoreUnreachable(errors.StoreUnavailable):
    """The store of a queue was unreachable for longer than the timeout."""

    message = (
        'The store of the queue "{queue}" of the project "{project}" cannot be reached: {why}; '
        'it was tried again for three times as long as the option "timeout" says'
    )
    code = 1707


@dataclass(frozen=True)
class StoreLocation:
    """The pool and store of a queue."""

    pool: str
    uri: str


def store_config(options: SourceOptions) -> StoreConfig:
    """Returns the configuration that options give.  Raises BadConfiguration."""
    uri = _validated_uri("uri", options.uri())
    control = options["controlUri"]
    return StoreConfig(
        uri=uri,
        control_uri=_validated_uri("controlUri", control) if control else uri,
        project=options["project"],
        timeout=options["timeout"],
        read_replicas=options.use in READS and options["readReplicas"],
    )


def _validated_uri(name: str, uri: str) -> str:
    try:
        scheme = urlsplit(uri).scheme
        if scheme == "memory":
            raise errors.BadConfiguration("memory:// is within one process; Spark has several")
        if scheme == "embedded":
            return embedded.DataDirectory(uri).uri
        plain = uris.to_redis_uri(uri)
        blocking.client(plain, BatchSettings())
    except (errors.BadConfiguration, ValueError) as error:
        raise errors.BadConfiguration(f'option "{name}": {error}') from error
    return plain


def refused(option: str, uri: str, error: CommandRefused) -> errors.BadConfiguration:
    return errors.BadConfiguration(f'option "{option}": {redact_password(uri)} refuses: {error}')


class _LocatedStore(BlockingRedisStore):
    """The store of a pool, with the location that tasks get."""

    def __init__(self, client: BlockingClient, location: StoreLocation) -> None:
        super().__init__(client)
        self.location = location


class StoreConnections:
    """Connections to stores, opened when they are needed.  For one process."""

    def __init__(self, config: StoreConfig) -> None:
        self.config = config
        self._settings = BatchSettings(
            timeout=config.timeout,
            connect_timeout=min(config.timeout, 5.0),
            read_replicas=config.read_replicas,
        )
        seconds = _RETRY_TIMEOUTS * config.timeout
        self._retry = RetryPolicy(move_timeout=seconds, outage_timeout=seconds)
        self._clients: dict[str, BlockingClient] = {}
        self._control = BlockingRedisControl(self.client(config.control_uri))
        self._router = Router(
            self._store(DEFAULT_POOL, config.uri),
            self._control,
            self._open_pool,
            self._retry,
            cache_ttl=_LOCATION_TTL_SECONDS,
        )

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
            client = blocking.client(uri, self._settings, _CONNECTIONS)
            self._clients[uri] = client
        return client

    def _open_pool(self, pool: Pool) -> _LocatedStore:
        return self._store(pool.name, uris.to_redis_uri(pool.uri))

    def _store(self, pool: str, uri: str) -> _LocatedStore:
        return _LocatedStore(self.client(uri), StoreLocation(pool, uri))

    def check(self, *, wait: bool = False) -> None:
        """Raises BadConfiguration that names the option when the store cannot be used.

        With *wait*, a short outage is not an error.
        """
        for name, uri in (("uri", self.config.uri), ("controlUri", self.config.control_uri)):
            attempts = Attempts(self._retry if wait else RetryPolicy())
            try:
                while not self._answers(uri, attempts):
                    pass
            except errors.Unavailable as error:
                why = f": {errors.reason(error.__cause__)}" if error.__cause__ else ""
                raise errors.BadConfiguration(
                    f'option "{name}": {redact_password(uri)} cannot be reached{why}'
                ) from error
            except CommandRefused as error:
                raise refused(name, uri, error) from error

    def check_reading(self, location: StoreLocation, queue: str) -> None:
        """Tries the commands that tasks will use, without effect, before any task starts.

        Otherwise Spark would retry a task that Redis refuses, and report a stack trace.
        Raises BadConfiguration when the store refuses, StoreUnavailable.
        """
        known = keys.of_queue(self.config.project, queue)
        self._try(
            location,
            ("TIME",),
            ("EXISTS", known.holds),
            ("GET", known.move_lock),
            ("HGET", known.queue, "epoch"),
            ("HMGET", known.bodies, _NO_RANK),
            ("ZCOUNT", known.messages, _NO_RANK, _NO_RANK),
            ("ZRANGE", known.messages, 0, 0),
            ("ZRANGEBYSCORE", known.messages, _NO_RANK, _NO_RANK),
            ("ZMSCORE", known.claimed, _NO_RANK),
        )

    def check_writing(self, queue: str) -> None:
        """The same for writes to the store of a queue; "" stands for the default pool."""
        known = keys.of_queue(self.config.project, queue)
        tried = ("HDEL", known.bodies, _NO_RANK), ("ZREM", known.messages, _NO_RANK)
        self.with_retry(queue, lambda location: self._try(location, *tried))

    def _try(self, location: StoreLocation, *commands: tuple[bytes | str | int, ...]) -> None:
        try:
            self.client(location.uri).commands(*commands)
        except CommandRefused as error:
            raise refused("uri", location.uri, error) from error

    def _answers(self, uri: str, attempts: Attempts) -> bool:
        """Returns whether the store answers, after a pause if not."""
        try:
            self.client(uri).command("PING")
            if uri == self.config.control_uri:
                self._control.catalogue.locate(self.config.project, "").run()
        except errors.Unavailable as error:
            time.sleep(attempts.pause(error).seconds)
            return False
        return True

    def location(self, queue: str, *, make: bool = False) -> StoreLocation:
        """Returns the location of a queue, or the default pool; *make* assigns a pool."""
        return self._router.find(self.config.project, queue, make=make).run().driver.location

    def claims(self, location: StoreLocation) -> RedisClaims:
        """Returns the claims of a store, whose dead letters go to their queues."""
        return self._router.stores.get(location.pool).run().driver.claims

    def uri_of(self, pool: str) -> str:
        """Returns the URI of a pool.  Raises StoreUnavailable when the pool does not exist."""
        return self._router.stores.get(pool).run().driver.location.uri

    def queues(self, *, topics: bool = False) -> list[str]:
        """Returns the names of all queues of the project, or of all *topics*, sorted."""
        queues = RoutedQueues(self._router)
        found: list[str] = []
        after = ""
        while True:
            page = queues.list(self.config.project, after, _PAGE, None, topics=topics).run()
            found += [queue.name for queue in page.items]
            if len(page.items) < _PAGE:
                return found
            after = page.marker

    def with_retry(self, queue: str, act: Callable[[StoreLocation], T], *, make: bool = False) -> T:
        """Returns what *act* returns for the queue's location; retries after a move or outage.

        *act* must be idempotent.  Raises StoreUnreachable when the timeout has passed.
        """

        def acted(store: _LocatedStore) -> Steps[T]:
            return act(store.location)
            yield

        project = self.config.project
        try:
            return self._router.route(
                project, queue, lambda store: Verb(None, acted(store)), make=make
            ).run()
        except errors.Unavailable as error:
            why = errors.reason(error.__cause__ or error)
            raise StoreUnreachable(queue=queue, project=project, why=why) from error
