# SPDX-License-Identifier: Apache-2.0
"""Reading request bodies within a bound, and watching for disconnects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import falcon.asgi

from zaqar_redis import errors

#: Bytes of documents without a limit of their own: claims, purges, shares, pools, flavors.
SMALL = 64 * 1024

#: Where the application keeps ASGI's receive() in the scope, and its first event.
RECEIVE = "zaqar_redis.receive"
FIRST_EVENT = "zaqar_redis.first"


async def read(req: falcon.asgi.Request, most: int, what: str) -> bytes:
    """Returns the whole body.

    Raises BadRequest when it is larger than *most* bytes, and BadBody when it is cut off.
    """
    length = req.content_length
    if length == 0:
        return b""
    if length is not None and length > most:
        raise _too_large(what, most)
    # Straight from the server: falcon's stream costs as much as parsing a message.
    receive = req.scope[RECEIVE]
    event = req.scope[FIRST_EVENT]
    data: bytes = event["body"]
    more = event["more_body"]
    while more and len(data) <= most:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise errors.BadBody(why="The request ended before its body did.")
        data += event["body"]
        more = event["more_body"]
    if len(data) > most:
        raise _too_large(what, most)
    return data


def _too_large(what: str, most: int) -> errors.BadRequest:
    return errors.BadRequest(why=f"{what} may be at most {most} bytes a request.")


@contextlib.asynccontextmanager
async def watch_disconnect(req: falcon.asgi.Request, watched: bool) -> AsyncIterator[asyncio.Event]:
    """Yields an event that is set when the client disconnects; only if *watched*."""
    disconnected = asyncio.Event()
    if not watched:
        yield disconnected
        return
    receive = req.scope[RECEIVE]

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        disconnected.set()

    watching: asyncio.Task[Any] = asyncio.create_task(watch())
    try:
        yield disconnected
    finally:
        watching.cancel()
