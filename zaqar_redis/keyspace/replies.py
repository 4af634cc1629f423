# SPDX-License-Identifier: Apache-2.0
"""The replies of a connection, parsed as they arrive: many in one read."""

from __future__ import annotations

import asyncio
import math
from typing import Any, cast

import hiredis
from redis.asyncio.connection import AbstractConnection

#: Bytes that are read at once: some hundred replies.
_READ_SIZE = 64 * 1024
#: What comes in the place of a reply when no whole one is left.
NO_REPLY = object()


class ParsedReplies:
    """Replies straight from the stream: redis-py takes two coroutines for each."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._stream = cast(asyncio.StreamReader, connection._reader)
        parse_error = connection._parser.parse_error
        self._reader = hiredis.Reader(replyError=parse_error, notEnoughData=NO_REPLY)
        #: returns the next reply, or the error that it is; NO_REPLY when none is there
        self.next = self._reader.gets

    async def receive(self) -> None:
        """Waits for more.  Raises ConnectionError when the peer has closed the connection."""
        data = await self._stream.read(_READ_SIZE)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._reader.feed(data)


class FakeReplies:
    """Replies of fakeredis, which has no bytes to parse."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._reply: Any = NO_REPLY

    async def receive(self) -> None:
        self._reply = await self._connection.read_response(
            disable_decoding=True, timeout=math.inf, disconnect_on_error=False
        )

    def next(self) -> Any:
        reply, self._reply = self._reply, NO_REPLY
        return reply


def reply_stream(connection: AbstractConnection) -> ParsedReplies | FakeReplies:
    """Returns the replies of an open connection, from now on."""
    is_real = isinstance(connection._reader, asyncio.StreamReader)
    return ParsedReplies(connection) if is_real else FakeReplies(connection)
