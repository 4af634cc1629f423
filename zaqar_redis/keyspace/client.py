# SPDX-License-Identifier: Apache-2.0
"""Clients of a store, by its URI.

============================= ==============================================
``redis://[[user]:pw@]host``  TCP; ``/N`` is the database number
``rediss://…``                the same over TLS
``unix://[:pw@]/path``        a unix socket; ``?db=N``
``redis+sentinel://…/name``   the primary that Sentinel calls *name*; ``?db=N``
``redis+cluster://…``         a Redis Cluster, by some of its nodes
``embedded://[/dir]``         a private server (`embedded`)
``memory://[name]``           fakeredis, within one process, for tests
============================= ==============================================

The hosts of a Sentinel or Cluster are separated by commas; ``rediss+…`` is over TLS.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, cast
from urllib.parse import parse_qs, urlsplit

import redis
import redis.asyncio
from msgspec.structs import replace
from redis.asyncio.connection import AbstractConnection
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    MovedError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.retry import Retry

from zaqar_redis import errors
from zaqar_redis.keyspace import memory_guard, refusals, sentinel, uris
from zaqar_redis.keyspace.batch import CommandBatcher, PendingCommand
from zaqar_redis.keyspace.cluster import Primary
from zaqar_redis.keyspace.cluster_client import ClusterClient
from zaqar_redis.keyspace.refusals import RefusalLog
from zaqar_redis.keyspace.replicas import ReplicaReader, begin_reading, begin_reading_copy
from zaqar_redis.keyspace.script import RedisCommand
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.records import MoveLock

#: Refusals of a store that will be repeated: e.g. its user has no permission.
CommandRefused = ResponseError

#: Prefix of the refusals of lua/shared/move_lock.lua.
_MOVE_LOCKED = "GATED "
#: Refusals of a Redis at its maxmemory; redis-py cuts off the first word.
_FULL = re.compile("OOM|out of memory|command not allowed when used memory")
#: Seconds between attempts to find a new primary.
_FAILOVER_PAUSE = 0.25
#: Of a Redis whose URI names none.
PORT = 6379
#: of this process
_REFUSALS = RefusalLog()


class AsyncClient(Protocol):
    """The client that the server needs of a Redis."""

    #: what errors call it
    name: str
    #: for the log, without its password
    uri: str
    settings: BatchSettings

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    @property
    def reader(self) -> Any:
        """What has a `call` for answers that may be a moment old."""

    def call(self, call: RedisCommand) -> Awaitable[Any]:
        """Returns the answer of a script or a plain command.  Raises `errors.StoreUnavailable`."""

    def command(self, *parts: bytes | str | int) -> Awaitable[Any]:
        """Returns the answer of a plain command.  Raises `errors.StoreUnavailable`."""

    async def identity(self) -> str:
        """Returns the identity of server and database, valid as long as the server runs."""

    def connection(self) -> AbstractConnection:
        """Returns a separate connection, not open yet, which the caller opens and closes."""

    async def until_replaced(self, connection: AbstractConnection) -> None:
        """Raises ConnectionError when the server of a connection is not the primary any more."""

    def by_node(self, names: Sequence[bytes]) -> Sequence[tuple[AsyncClient, Sequence[bytes]]]:
        """Returns a client of each Redis that has some of the keys, and which these are.

        Raises `errors.StoreUnavailable` when that is not known.
        """

    def nodes(self) -> Sequence[AsyncClient]:
        """Returns a client of each Redis that has keys.  Raises `errors.StoreUnavailable`."""


class BatchingClient:
    """A client over one smart-batching connection."""

    def __init__(
        self,
        uri: str,
        settings: BatchSettings,
        name: str = "",
        take_over: Callable[[PendingCommand, RedisError], bool] | None = None,
    ) -> None:
        """*take_over*: of `CommandBatcher`; it follows the slots of a cluster."""
        self.settings = settings
        in_cluster = take_over is not None
        self.uri = redact_password(uri)
        self.name = name or self.uri
        # The batcher watches the deadlines itself, for all commands at once.
        self._pool = _pool(uri, settings, socket_timeout=None)
        self.until_replaced = sentinel.PrimaryWatch(self._pool).until_replaced
        if uris.is_sentinel(uri):
            take_over = _refuse_replica
            # Each attempt asks the sentinels anew: a longer pause would only add to a failover.
            settings = replace(settings, backoff_max=min(settings.backoff_max, _FAILOVER_PAUSE))
        self.batch = CommandBatcher(
            self._pool.make_connection,
            settings,
            self.uri,
            self.name,
            partial(translate_error, store=self.name, in_cluster=in_cluster),
            take_over,
            self.until_replaced,
        )
        self._database = self._pool.connection_kwargs.get("db") or 0
        self.reader: Any = self
        self._replicas: redis.asyncio.ConnectionPool | None = None
        if settings.read_replicas and uris.is_sentinel(uri):
            self._replicas = _pool(uri, settings, replicas=True, socket_timeout=None)
            self.reader = ReplicaReader(self, self._replicas, settings, self.name, self.uri)

    async def start(self) -> None:
        if self._replicas is None:
            await self.batch.start()
        else:
            await asyncio.gather(self.batch.start(), self.reader.start())

    async def close(self) -> None:
        await self.batch.close()
        await sentinel.close(self._pool)
        if self._replicas is not None:
            await self.reader.close()
            await sentinel.close(self._replicas)

    def call(self, call: RedisCommand) -> asyncio.Future[Any]:
        return self.batch.send(call)

    def command(self, *parts: bytes | str | int) -> asyncio.Future[Any]:
        return self.batch.send(RedisCommand(*parts))

    async def identity(self) -> str:
        server: bytes = await self.command("INFO", "server")
        run = re.search(rb"run_id:(\w+)", server)
        return f"{run[1].decode() if run else ''}/{self._database}"

    def connection(self) -> AbstractConnection:
        return cast(AbstractConnection, self._pool.make_connection())

    def by_node(self, names: Sequence[bytes]) -> Sequence[tuple[AsyncClient, Sequence[bytes]]]:
        return [(self, names)]

    def nodes(self) -> Sequence[AsyncClient]:
        return [self]


class MemoryClient:
    """A client of a fakeredis in this process; every *name* is one store."""

    def __init__(self, uri: str, settings: BatchSettings, name: str = "") -> None:
        self.uri = uri
        self.name = name or uri
        self.settings = settings
        self.reader: Any = self
        self._redis: redis.asyncio.Redis = fakeredis().FakeAsyncRedis(
            server=fake_server(uri), protocol=2
        )
        # Answers as Redis gives them, like the batch: no cursor turned into a number.
        self._redis.response_callbacks.clear()

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        await self._redis.aclose()

    async def call(self, call: RedisCommand) -> Any:
        try:
            # fakeredis loads no scripts by itself
            return await self.command(*call.with_source().command())
        except ResponseError as refusal:
            raise translate_error(refusal, self.name) from refusal

    async def command(self, *parts: bytes | str | int) -> Any:
        # fakeredis uses asyncio.wait_for, which before Python 3.12 drops a cancellation that comes
        # together with the answer: who cancels a task and waits for its end would wait for ever.
        return await asyncio.shield(asyncio.create_task(self._redis.execute_command(*parts)))

    async def identity(self) -> str:
        return self.uri

    def connection(self) -> AbstractConnection:
        return cast(AbstractConnection, self._redis.connection_pool.make_connection())

    async def until_replaced(self, connection: AbstractConnection) -> None:
        await asyncio.Event().wait()

    def by_node(self, names: Sequence[bytes]) -> Sequence[tuple[AsyncClient, Sequence[bytes]]]:
        return [(self, names)]

    def nodes(self) -> Sequence[AsyncClient]:
        return [self]


def client(uri: str, settings: BatchSettings, name: str = "") -> AsyncClient:
    """Returns a client for a running event loop.

    *name* is for errors; without one they name the URI without its password.
    Raises BadConfiguration when the URI cannot be used.
    """
    uri = validate_uri(uris.to_redis_uri(uri))
    if urlsplit(uri).scheme == "memory":
        return MemoryClient(uri, settings, name)
    if uris.is_cluster(uri):
        name = name or redact_password(uri)

        def connect(
            node: Primary, take_over: Callable[[PendingCommand, RedisError], bool]
        ) -> BatchingClient:
            return BatchingClient(uris.of_node(uri, *node), settings, name, take_over)

        def connect_reader(primary: Any, host: str, port: int) -> ReplicaReader:
            node = uris.of_node(uri, host, port)
            pool = _pool(node, settings, redis_connect_func=begin_reading, socket_timeout=None)
            return ReplicaReader(primary, pool, settings, name, redact_password(node))

        seeds = [Primary(*each) for each in uris.hosts(uri, PORT)]
        return ClusterClient(seeds, connect, connect_reader, settings, name, redact_password(uri))
    return BatchingClient(uri, settings, name)


def validate_uri(uri: str) -> str:
    """Returns the URI.  Raises BadConfiguration when it names no Redis."""
    given = uri
    try:
        parts = urlsplit(uri)
        if parts.scheme == "memory":
            return uri
        if uris.is_cluster(uri):
            if parts.path.strip("/") or "db" in parse_qs(parts.query):
                raise ValueError("a Redis Cluster has only one database: name none")
            uri = uris.of_node(uri, *uris.hosts(uri, PORT)[0])
            parts = urlsplit(uri)
        if parts.scheme.removesuffix("+sentinel") not in ("redis", "rediss", "unix"):
            raise ValueError(f'unknown scheme "{parts.scheme}"')
        if parts.scheme == "unix" and not parts.path:
            raise ValueError("no path to a socket")
        if parts.scheme in ("redis", "rediss") and not re.fullmatch(r"/?\d*", parts.path):
            raise ValueError("the path must be a database number")
        _pool(uri, BatchSettings()).make_connection()
    except TypeError as error:  # redis-py passes options on as they come
        name = re.search(r"argument '(\w+)'", str(error))
        why = f'unknown option "{name[1]}"' if name else str(error)
        raise errors.BadConfiguration(f"storage URI {redact_password(uri)}: {why}") from error
    except ValueError as error:
        raise errors.BadConfiguration(f"storage URI {redact_password(uri)}: {error}") from error
    return given


@asynccontextmanager
async def connected(uri: str, settings: BatchSettings) -> AsyncIterator[AsyncClient]:
    opened = client(uri, settings)
    await opened.start()
    try:
        yield opened
    finally:
        await opened.close()


def _refuse_replica(pending: PendingCommand, refusal: RedisError) -> bool:
    """Gives up the connection to a primary that has become a replica."""
    if isinstance(refusal, ReadOnlyError):
        raise redis.ConnectionError("the server has become a replica")
    return False


def connection_options(settings: BatchSettings) -> dict[str, Any]:
    """Returns redis-py's options of every connection."""
    # redis-py must not retry: a verb that may have been done is not repeated.
    return {
        "socket_timeout": settings.timeout,
        "socket_connect_timeout": settings.connect_timeout,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }


def _keepalive(uri: str) -> dict[str, Any]:
    # A listener sends nothing by itself: it would never notice that its peer is gone.
    return {} if urlsplit(uri).scheme == "unix" else {"socket_keepalive": True}


def _pool(
    uri: str, settings: BatchSettings, *, replicas: bool = False, **options: Any
) -> redis.asyncio.ConnectionPool:
    options = connection_options(settings) | _keepalive(uri) | options
    if uris.is_sentinel(uri):
        if replicas:
            options["redis_connect_func"] = begin_reading_copy
        return sentinel.async_pool(uri, options, replicas=replicas)
    return redis.asyncio.ConnectionPool.from_url(uri, **options)


def translate_error(error: Exception, store: str, *, in_cluster: bool = False) -> Exception:
    """Returns what callers get for an error of redis-py; the same if it is theirs.

    *in_cluster*: the client knows that the store is a cluster, and follows slots that move.
    """
    if isinstance(error, (redis.TimeoutError, TimeoutError)):
        return errors.StoreTimeout(store)
    if isinstance(error, (redis.ConnectionError, OSError)) and not refusals.is_refusal(error):
        return errors.StoreUnavailable(store)
    if not in_cluster and (isinstance(error, MovedError) or refusals.NOT_HERE in str(error)):
        _REFUSALS.note(store, "is a node of a cluster", error)
        return errors.StoreInCluster(store)
    text = str(error)
    if text.startswith(_MOVE_LOCKED):
        return errors.MoveLocked(MoveLock.parse(text.removeprefix(_MOVE_LOCKED)))
    if _FULL.search(text):
        return memory_guard.refusal(store)
    if why := refusals.why(error):
        # A slot that moves is no news: each of its commands is refused, and tried again.
        if not isinstance(error, (AskError, TryAgainError)):
            _REFUSALS.note(store, why, error)
        return errors.StoreRefuses(store, why)
    return error


_FAKES: dict[str, Any] = {}


def fake_server(uri: str) -> Any:
    """Returns the store of a ``memory://`` URI."""
    return _FAKES.setdefault(uri, fakeredis().FakeServer(server_type="redis"))


def fakeredis() -> Any:
    """Returns the package.  Raises BadConfiguration when it is not installed."""
    try:
        import fakeredis
    except ImportError as error:
        raise errors.BadConfiguration(
            "memory:// needs the package fakeredis: pip install '.[memory]'"
        ) from error
    return fakeredis
