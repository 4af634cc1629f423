# SPDX-License-Identifier: Apache-2.0
"""Clients of a store, by its URI.

============================= ==============================================
``redis://[[user]:pw@]host``  TCP; ``/N`` is the database number
``rediss://…``                the same over TLS
``unix://[:pw@]/path``        a unix socket; ``?db=N``
``embedded://[/dir]``         a private server (`embedded`)
``memory://[name]``           fakeredis, within one process, for tests
============================= ==============================================
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

import msgspec
import redis
import redis.asyncio
from redis.asyncio.connection import AbstractConnection
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    NoScriptError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from zaqar_redis import errors
from zaqar_redis.keyspace import uris
from zaqar_redis.keyspace.batch import BatchSettings, CommandBatcher
from zaqar_redis.keyspace.refusals import RefusalLog
from zaqar_redis.keyspace.script import Call, RedisCommand
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.records import MoveLock

#: Refusals of a store that will be repeated: e.g. its user has no permission.
CommandRefused = ResponseError

#: Prefix of the refusals of lua/shared/move_lock.lua.
_MOVE_LOCKED = "GATED "
#: Refusals that pass: the server is starting, failing over, full or busy.
_TRANSIENT = re.compile(
    r"LOADING|BUSY|MASTERDOWN|READONLY|MISCONF|OOM|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|"
    r"max number of clients|loading the dataset|read only replica|out of memory|"
    r"command not allowed when"
)
#: of this process
_REFUSALS = RefusalLog()


class AsyncClient(Protocol):
    """The client that the server needs of a Redis."""

    #: what errors call it
    name: str

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def call(self, call: RedisCommand) -> Awaitable[Any]:
        """Returns the answer of a script or a plain command.  Raises `errors.StoreUnavailable`."""

    def command(self, *parts: bytes | str | int) -> Awaitable[Any]:
        """Returns the answer of a plain command.  Raises `errors.StoreUnavailable`."""

    async def identity(self) -> str:
        """Returns the identity of server and database, valid as long as the server runs."""

    def connection(self) -> AbstractConnection:
        """Returns a separate connection, not open yet, which the caller opens and closes."""


class BatchingClient:
    """A client over one smart-batching connection."""

    def __init__(self, uri: str, settings: BatchSettings, name: str = "") -> None:
        self.name = name or redact_password(uri)
        # The batcher watches the deadlines itself, for all commands at once.
        self._pool = _pool(uri, settings, socket_timeout=None)
        self._batch = CommandBatcher(
            self._pool.make_connection,
            settings,
            redact_password(uri),
            self.name,
            partial(_translate_error, store=self.name),
        )
        self._database = self._pool.connection_kwargs.get("db") or 0

    async def start(self) -> None:
        await self._batch.start()

    async def close(self) -> None:
        await self._batch.close()

    def call(self, call: RedisCommand) -> asyncio.Future[Any]:
        return self._batch.send(call)

    def command(self, *parts: bytes | str | int) -> asyncio.Future[Any]:
        return self._batch.send(RedisCommand(*parts))

    async def identity(self) -> str:
        server: bytes = await self.command("INFO", "server")
        run = re.search(rb"run_id:(\w+)", server)
        return f"{run[1].decode() if run else ''}/{self._database}"

    def connection(self) -> AbstractConnection:
        return cast(AbstractConnection, self._pool.make_connection())


class MemoryClient:
    """A client of a fakeredis in this process; every *name* is one store."""

    def __init__(self, uri: str, settings: BatchSettings, name: str = "") -> None:
        self.name = name or uri
        self._uri = uri
        self._redis: redis.asyncio.Redis = _fakeredis().FakeAsyncRedis(
            server=_fake_server(uri), protocol=2
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
            parts = call.command_with_source() if isinstance(call, Call) else call.command()
            return await self._redis.execute_command(*parts)
        except ResponseError as refusal:
            raise _translate_error(refusal, self.name) from refusal

    async def command(self, *parts: bytes | str | int) -> Any:
        return await self._redis.execute_command(*parts)

    async def identity(self) -> str:
        return self._uri

    def connection(self) -> AbstractConnection:
        return cast(AbstractConnection, self._redis.connection_pool.make_connection())


class BlockingClient:
    """A client for threads: the plugin, Spark and the command line."""

    def __init__(self, uri: str, settings: BatchSettings, connections: int = 64) -> None:
        """Raises BadConfiguration when the URI cannot be used.

        *connections* is their maximum; further threads wait for one.
        """
        self.name = redact_password(uri)
        self.settings = settings
        self.connections = connections
        self._redis: redis.Redis
        if urlsplit(validate_uri(uri)).scheme == "memory":
            self._redis = _fakeredis().FakeRedis(server=_fake_server(uri), protocol=2)
        else:
            pool = redis.BlockingConnectionPool.from_url(
                uri, max_connections=connections, timeout=settings.timeout, **_options(settings)
            )
            self._redis = redis.Redis(connection_pool=pool)
        # Answers as Redis gives them, whichever way a command is sent.
        self._redis.response_callbacks.clear()

    def call(self, call: RedisCommand) -> Any:
        try:
            return self._redis.execute_command(*call.command())
        except NoScriptError as error:
            if not isinstance(call, Call):
                raise _translate_error(error, self.name) from error
            return self.command(*call.command_with_source())
        except (RedisError, OSError) as error:
            raise _translate_error(error, self.name) from error

    def command(self, *parts: bytes | str | int) -> Any:
        try:
            return self._redis.execute_command(*parts)
        except (RedisError, OSError) as error:
            raise _translate_error(error, self.name) from error

    def calls(self, calls: Sequence[RedisCommand]) -> list[Any]:
        """Returns the answers of calls that are sent together, but are not atomic."""
        with self._redis.pipeline(transaction=False) as pipeline:
            for call in calls:
                pipeline.execute_command(*call.command())
            try:
                answers = pipeline.execute(raise_on_error=False)
            except (RedisError, OSError) as error:
                raise _translate_error(error, self.name) from error
        for place, answer in enumerate(answers):
            if isinstance(answer, NoScriptError):
                answers[place] = self.call(calls[place])
            elif isinstance(answer, RedisError):
                raise _translate_error(answer, self.name) from answer
        return answers

    def commands(self, *commands: tuple[bytes | str | int, ...]) -> list[Any]:
        """Returns the answers of plain commands, as `calls` does."""
        return self.calls([RedisCommand(*command) for command in commands])

    def listener(self) -> redis.client.PubSub:
        return cast(redis.client.PubSub, self._redis.pubsub())

    def close(self) -> None:
        self._redis.close()


def settings(options: Mapping[str, Any]) -> BatchSettings:
    """Returns the settings from options by name; other options are ignored."""
    known = BatchSettings.__struct_fields__
    return BatchSettings(**{name: options[name] for name in options if name in known})


def check_options(options: Mapping[str, Any]) -> None:
    """Raises BadConfiguration when one of `settings` is of another type, or not above 0.

    Others are ignored: operators have some for stock Zaqar's stores.
    """
    for name in BatchSettings.__struct_fields__:
        if name not in options:
            continue
        try:
            msgspec.convert({name: options[name]}, BatchSettings)
        except msgspec.ValidationError as error:
            raise errors.BadConfiguration(f'"{name}": {error}') from error
        if not options[name] > 0:
            raise errors.BadConfiguration(f'"{name}" must be more than 0')


def client(uri: str, settings: BatchSettings, name: str = "") -> AsyncClient:
    """Returns a client for a running event loop.

    *name* is for errors; without one they name the URI without its password.
    Raises BadConfiguration when the URI cannot be used.
    """
    uri = validate_uri(uris.to_redis_uri(uri))
    if urlsplit(uri).scheme == "memory":
        return MemoryClient(uri, settings, name)
    return BatchingClient(uri, settings, name)


def validate_uri(uri: str) -> str:
    """Returns the URI.  Raises BadConfiguration when it names no Redis."""
    try:
        parts = urlsplit(uri)
        if parts.scheme == "memory":
            return uri
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise ValueError(f'unknown scheme "{parts.scheme}"')
        if parts.scheme == "unix" and not parts.path:
            raise ValueError("no path to a socket")
        if parts.scheme != "unix" and not re.fullmatch(r"/?\d*", parts.path):
            raise ValueError("the path must be a database number")
        _pool(uri, BatchSettings()).make_connection()
    except TypeError as error:  # redis-py passes options on as they come
        name = re.search(r"argument '(\w+)'", str(error))
        why = f'unknown option "{name[1]}"' if name else str(error)
        raise errors.BadConfiguration(f"storage URI {redact_password(uri)}: {why}") from error
    except ValueError as error:
        raise errors.BadConfiguration(f"storage URI {redact_password(uri)}: {error}") from error
    return uri


@asynccontextmanager
async def connected(uri: str, settings: BatchSettings) -> AsyncIterator[AsyncClient]:
    opened = client(uri, settings)
    await opened.start()
    try:
        yield opened
    finally:
        await opened.close()


def _options(settings: BatchSettings) -> dict[str, Any]:
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


def _pool(uri: str, settings: BatchSettings, **options: Any) -> redis.asyncio.ConnectionPool:
    return redis.asyncio.ConnectionPool.from_url(
        uri, **(_options(settings) | _keepalive(uri) | options)
    )


def _translate_error(error: Exception, store: str) -> Exception:
    if isinstance(error, (redis.TimeoutError, TimeoutError)):
        return errors.StoreTimeout(store)
    if isinstance(error, (redis.ConnectionError, OSError, AuthenticationError)):
        return errors.StoreUnavailable(store)
    text = str(error)
    if text.startswith(_MOVE_LOCKED):
        return errors.MoveLocked(MoveLock.parse(text.removeprefix(_MOVE_LOCKED)))
    if refusal := _TRANSIENT.search(text):
        _REFUSALS.note(store, refusal[0], error)
        return errors.StoreRefuses(store)
    return error


_FAKES: dict[str, Any] = {}


def _fake_server(uri: str) -> Any:
    return _FAKES.setdefault(uri, _fakeredis().FakeServer(server_type="redis"))


def _fakeredis() -> Any:
    try:
        import fakeredis
    except ImportError as error:
        raise errors.BadConfiguration(
            "memory:// needs the package fakeredis: pip install '.[memory]'"
        ) from error
    return fakeredis
