# SPDX-License-Identifier: Apache-2.0
"""Pools of connections to the primary that Redis Sentinel names, by redis-py."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.asyncio.connection import AbstractConnection
from redis.connection import parse_url

from zaqar_redis.keyspace import uris

#: What is said to the sentinels, too: how long to wait, and TLS.
_SHARED = ("socket_", "ssl_")
_PREFIX = "sentinel_"
_PORT = 26379
#: Seconds between questions to the sentinels: a primary that hangs says nothing itself.
_WATCH_INTERVAL_SECONDS = 0.5


class _Monitored(NamedTuple):
    """A primary that sentinels monitor, as a URI has it."""

    service: str
    sentinels: list[tuple[str, int]]
    #: of a connection to a sentinel
    sentinel_options: dict[str, Any]
    #: of a connection to the primary
    options: dict[str, Any]
    tls: bool


class _AsyncSentinels(redis.asyncio.sentinel.Sentinel):
    # redis-py puts the one that has answered first by swapping two places, while others may ask
    # too: the list would have one of them twice then, and lack another.
    async def discover_master(self, service_name: str) -> Any:
        asked = copy.copy(self)
        asked.sentinels = [*self.sentinels]
        try:
            found = await super(_AsyncSentinels, asked).discover_master(service_name)
        except redis.asyncio.sentinel.MasterNotFoundError as error:
            raise _without_objects(service_name, error) from None
        self.sentinels = asked.sentinels
        return found


class _Sentinels(redis.sentinel.Sentinel):
    """Does the same for threads."""

    def discover_master(self, service_name: str) -> Any:
        asked = copy.copy(self)
        asked.sentinels = [*self.sentinels]
        asking: Any = super(_Sentinels, asked)  # redis-py's has no types
        try:
            found = asking.discover_master(service_name)
        except redis.sentinel.MasterNotFoundError as error:
            raise _without_objects(service_name, error) from None
        self.sentinels = asked.sentinels
        return found


def _without_objects(service: str, error: redis.ConnectionError) -> redis.ConnectionError:
    """Returns an error for operators; redis-py's shows its clients as Python does."""
    told = re.findall(r"host=([^,)]+),port=(\d+).*? - ([^<]*?)(?:, (?=<)|$)", str(error))
    reasons = "; ".join(f"{host}:{port}: {why}" for host, port, why in told)
    wrong = " (sentinel_password in the URI)" if "Authentication" in reasons else ""
    return redis.ConnectionError(
        f"no sentinel names a primary {service}" + (f": {reasons}{wrong}" if reasons else "")
    )


def async_pool(
    uri: str, options: Mapping[str, Any], *, replicas: bool = False
) -> redis.asyncio.ConnectionPool:
    """Returns a pool whose connections ask the sentinels where the primary is.

    *replicas*: where a replica is, and only if there is none, the primary.

    Raises ValueError when the URI is wrong.
    """
    found = _read(uri, options)
    make: Any = _AsyncSentinels  # redis-py's has no types
    sentinel = make(found.sentinels, sentinel_kwargs=found.sentinel_options)
    return redis.asyncio.sentinel.SentinelConnectionPool(
        found.service, sentinel, ssl=found.tls, is_master=not replicas, **found.options
    )


class PrimaryWatch:
    """Notices that the sentinels name another primary, when the old one does not say so."""

    def __init__(self, pool: redis.asyncio.ConnectionPool) -> None:
        """*pool*: of any Redis; only one of `async_pool` is watched."""
        self._pool: Any = pool
        self._address: tuple[str, int] | None = None
        self._read_at = 0.0
        self._asking = asyncio.Lock()

    async def until_replaced(self, connection: AbstractConnection) -> None:
        """Raises ConnectionError when the connection is to another server than the primary."""
        if not isinstance(self._pool, redis.asyncio.sentinel.SentinelConnectionPool):
            await asyncio.Event().wait()
        over_tcp: Any = connection
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_SECONDS)
            address = await self._primary()
            if address not in (None, (over_tcp.host, over_tcp.port)):
                raise redis.ConnectionError("the sentinels name another primary")

    async def _primary(self) -> tuple[str, int] | None:
        """Returns the address of the primary; None: no sentinel tells it."""
        async with self._asking:  # for all connections at once
            now = asyncio.get_running_loop().time()
            if now > self._read_at + _WATCH_INTERVAL_SECONDS / 2:
                try:
                    self._address = await self._pool.get_master_address()
                except (redis.RedisError, OSError):
                    self._address = None
                self._read_at = now
        return self._address


async def close(pool: redis.asyncio.ConnectionPool) -> None:
    """Closes the connections to sentinels, if the pool has any."""
    if isinstance(pool, redis.asyncio.sentinel.SentinelConnectionPool):
        for each in pool.sentinel_manager.sentinels:
            await each.aclose()


def blocking_pool(
    uri: str, options: Mapping[str, Any], *, replicas: bool = False
) -> redis.BlockingConnectionPool:
    """Does the same for threads."""
    found = _read(uri, options)
    make: Any = _Sentinels  # redis-py's has no types
    pool = redis.BlockingConnectionPool(
        connection_class=(
            redis.sentinel.SentinelManagedSSLConnection
            if found.tls
            else redis.sentinel.SentinelManagedConnection
        ),
        **found.options,
    )
    # redis-py's own pool for this does not let threads wait for a connection.
    pool.connection_kwargs["connection_pool"] = redis.sentinel.SentinelConnectionPoolProxy(
        connection_pool=pool,
        is_master=not replicas,
        check_connection=False,
        service_name=found.service,
        sentinel_manager=make(found.sentinels, sentinel_kwargs=found.sentinel_options),
    )
    return pool


def _read(uri: str, given: Mapping[str, Any]) -> _Monitored:
    parts = urlsplit(uri)
    service = parts.path.strip("/")
    if not service or "/" in service:
        raise ValueError('the path must be the name of the primary, e.g. "/mymaster"')
    sentinels = uris.hosts(uri, _PORT)
    # The port of the first one is replaced by that of the primary.
    options = parse_url(uris.of_node(uri, *sentinels[0])) | dict(given)
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    own = {
        name.removeprefix(_PREFIX): options.pop(name)
        for name in list(options)
        if name.startswith(_PREFIX)
    }
    tls = parts.scheme.startswith("rediss")
    # One that hangs must leave time to ask the others.
    wait = options.get("socket_connect_timeout", 2.0) / (len(sentinels) + 1)
    shared = {name: value for name, value in options.items() if name.startswith(_SHARED)}
    sentinel_options = {
        **shared,
        **own,
        **({"ssl": True} if tls else {}),
        "socket_timeout": wait,
        "socket_connect_timeout": wait,
        "retry": options.get("retry"),
        "protocol": 2,
    }
    return _Monitored(service, sentinels, sentinel_options, options, tls)
