# SPDX-License-Identifier: Apache-2.0
"""Reader of stock Zaqar's Redis store: bounded pages, and no writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.records import Queue
from zaqar_redis.zaqar_import import layout
from zaqar_redis.zaqar_import.layout import InvalidStockData, Values

#: Keys that Redis examines in one SCAN: about a millisecond.
_SCAN = 1000
#: Ids read at once, with their hashes.  A body is 256 KiB at most unless the operator
#: allowed more, so a page is 25 MB at worst.
_PAGE = 100
#: Options of stock's URIs by which its driver logs in to Sentinels.
_OF_SENTINELS = ("sentinel_username", "sentinel_password")


class SourceUnavailable(Exception):
    """The source does not answer; the text says why."""


class StockStore:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def now(self) -> int:
        """Returns seconds, by the store's clock."""
        seconds, _ = await self._command("TIME")
        return int(seconds)

    async def holds_messages(self) -> bool:
        return bool(await self._command("EXISTS", layout.INDEX))

    async def projects(self) -> list[str]:
        """Returns the projects that have queues.  Raises InvalidStockData."""
        found: set[bytes] = set()
        cursor: Any = b"0"
        while True:
            cursor, keys = await self._command(
                "SCAN", cursor, "MATCH", layout.LISTS, "COUNT", _SCAN
            )
            # The key of a queue or of its messages may end so, too.
            kinds = await self._each("TYPE", keys)
            found |= {key for key, kind in zip(keys, kinds, strict=True) if kind == b"zset"}
            if cursor == b"0":
                return sorted(map(layout.project_of, found))

    async def queues(self, projects: Collection[str]) -> AsyncIterator[tuple[str, bytes]]:
        """Yields each project with each member of its list, which names a queue."""
        for project in projects:
            async for page in self._pages(layout.list_of(project)):
                for member in page:
                    yield project, member

    async def queue(self, project: str, name: str) -> Queue:
        """Raises InvalidStockData."""
        key = layout.key_of(project, name)
        return layout.queue(name, await self._command("HMGET", key, *layout.QUEUE_FIELDS))

    async def records(
        self, kind: str, project: str, queue: str
    ) -> AsyncIterator[list[tuple[bytes, Values]]]:
        """Yields pages of ids and fields of what a queue has of a kind, in order."""
        async for ids in self._pages(f"{layout.key_of(project, queue)}.{kind}"):
            found = await self._each("HMGET", ids, *layout.FIELDS[kind])
            yield list(zip(ids, found, strict=True))

    async def _pages(self, listing: str) -> AsyncIterator[list[bytes]]:
        start = 0
        while page := await self._command("ZRANGE", listing, start, start + _PAGE - 1):
            yield page
            start += _PAGE

    async def _each(self, name: str, keys: Sequence[bytes], *rest: str) -> list[Any]:
        """Returns the replies to one command for each key, sent in one write."""
        return await asyncio.gather(*(self._command(name, key, *rest) for key in keys))

    async def _command(self, *parts: bytes | str | int) -> Any:
        try:
            return await self._client.command(*parts)
        except errors.Unavailable as error:
            raise SourceUnavailable(error.text) from error
        except Exception as error:  # an error reply, e.g. for a key of another type
            raise InvalidStockData(str(error)) from error


@asynccontextmanager
async def open_source(uri: str) -> AsyncIterator[StockStore]:
    """Raises BadConfiguration when the URI cannot be used, and SourceUnavailable."""
    try:
        client = keyspace.client(to_redis_uri(uri), BatchSettings())
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(f"--from: {error}") from error
    await client.start()
    try:
        yield StockStore(client)
    finally:
        await client.close()


def to_redis_uri(uri: str) -> str:
    """Returns a URI for redis-py of one spelt as in stock Zaqar's configuration, or as it is.

    Of its options those are kept that say where the data are, and who may read them.
    """
    parts = urlsplit(uri)
    query = parse_qs(parts.query)
    if parts.scheme != "redis":
        return uri
    database = f"?db={query['dbid'][0]}" if "dbid" in query else ""
    if "master" in query:
        options = {"db": query.get("dbid", ["0"])[0]}
        options |= {name: query[name][0] for name in _OF_SENTINELS if name in query}
        return f"redis+sentinel://{parts.netloc}/{query['master'][0]}?{urlencode(options)}"
    if not parts.netloc:
        return f"unix://{parts.path}{database}"
    if database:
        return f"redis://{parts.netloc}{database}"
    return uri
