# SPDX-License-Identifier: Apache-2.0
"""Reads stock Zaqar's Redis store, a bounded page at a time, and writes nothing to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.records import Queue
from zaqar_redis.stock import layout
from zaqar_redis.stock.layout import Unreadable, Values

#: Keys that Redis looks at in one SCAN: about a millisecond.
_SCAN = 1000
#: Ids read at once, with what they name.  A body is 256 KiB at most unless the operator
#: allowed more, so a page is 25 MB at worst.
_PAGE = 100


class SourceAway(Exception):
    """The store to read from does not answer; the text says why."""


class Source:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def now(self) -> int:
        """Seconds, by the store's clock."""
        seconds, _ = await self._command("TIME")
        return int(seconds)

    async def holds_messages(self) -> bool:
        return bool(await self._command("EXISTS", layout.INDEX))

    async def projects(self) -> list[str]:
        """Those that have queues.  Raises Unreadable."""
        found: set[bytes] = set()
        cursor: Any = b"0"
        while True:
            cursor, keys = await self._command(
                "SCAN", cursor, "MATCH", layout.LISTS, "COUNT", _SCAN
            )
            # A queue or a message set may be called so as well.
            kinds = await self._each("TYPE", keys)
            found |= {key for key, kind in zip(keys, kinds, strict=True) if kind == b"zset"}
            if cursor == b"0":
                return sorted(map(layout.project_of, found))

    async def queues(self, projects: Collection[str]) -> AsyncIterator[tuple[str, bytes]]:
        """Project and queue, as the project's list has it."""
        for project in projects:
            async for page in self._pages(layout.list_of(project)):
                for member in page:
                    yield project, member

    async def queue(self, project: str, name: str) -> Queue:
        """Raises Unreadable."""
        key = layout.key_of(project, name)
        return layout.queue(name, await self._command("HMGET", key, *layout.QUEUE_FIELDS))

    def messages(self, project: str, queue: str) -> AsyncIterator[list[tuple[bytes, Values]]]:
        """Ids and fields, in order."""
        return self._hashes(layout.messages_of(project, queue), layout.MESSAGE_FIELDS)

    def claims(self, project: str, queue: str) -> AsyncIterator[list[tuple[bytes, Values]]]:
        return self._hashes(layout.claims_of(project, queue), layout.CLAIM_FIELDS)

    def subscriptions(self, project: str, queue: str) -> AsyncIterator[list[tuple[bytes, Values]]]:
        return self._hashes(layout.subscriptions_of(project, queue), layout.SUBSCRIPTION_FIELDS)

    async def _hashes(
        self, listing: str, fields: Sequence[str]
    ) -> AsyncIterator[list[tuple[bytes, Values]]]:
        async for ids in self._pages(listing):
            yield list(zip(ids, await self._each("HMGET", ids, *fields), strict=True))

    async def _pages(self, listing: str) -> AsyncIterator[list[bytes]]:
        start = 0
        while page := await self._command("ZRANGE", listing, start, start + _PAGE - 1):
            yield page
            start += _PAGE

    async def _each(self, name: str, keys: Sequence[bytes], *rest: str) -> list[Any]:
        """Answers to the same command about each key, asked in one write."""
        return await asyncio.gather(*(self._command(name, key, *rest) for key in keys))

    async def _command(self, *parts: bytes | str | int) -> Any:
        try:
            return await self._client.command(*parts)
        except errors.Unavailable as error:
            raise SourceAway(error.text) from error
        except Exception as error:  # what Redis says of a key that is of another type
            raise Unreadable(str(error)) from error


@asynccontextmanager
async def opened(uri: str) -> AsyncIterator[Source]:
    """Raises BadConfiguration when the URI cannot be used, SourceAway."""
    try:
        made = keyspace.client(understood(uri), BatchSettings())
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(f"--from: {error}") from error
    await made.start()
    try:
        yield Source(made)
    finally:
        await made.close()


def understood(uri: str) -> str:
    """The URI in redis-py's words, when it is spelt as in stock Zaqar's configuration.

    Raises BadConfiguration when it asks Sentinels.
    """
    parts = urlsplit(uri)
    query = parse_qs(parts.query)
    if "master" in query:
        raise errors.BadConfiguration("--from: name the master itself, not its Sentinels")
    if parts.scheme != "redis":
        return uri
    database = f"?db={query['dbid'][0]}" if "dbid" in query else ""
    if not parts.netloc:
        return f"unix://{parts.path}{database}"
    if database:
        return f"redis://{parts.netloc}{database}"
    return uri
