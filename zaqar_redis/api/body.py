# SPDX-License-Identifier: Apache-2.0
"""Reading request bodies within a bound, and noticing that a client has left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import falcon.asgi

from zaqar_redis import errors

#: Documents without a limit of their own: claims, purges, shares, patches.
SMALL = 64 * 1024

#: Where the application keeps ASGI's receive() in the scope, and its first event.
RECEIVE = "zaqar_redis.receive"
FIRST = "zaqar_redis.first"


async def read(req: falcon.asgi.Request, most: int, what: str) -> bytes:
    """The whole body.  Raises BadRequest when it is larger than *most* bytes."""
    length = req.content_length
    if length == 0:
        return b""
    if length is not None and length > most:
        raise _too_large(what, most)
    # Straight from the server: falcon's stream costs as much as parsing a message.
    receive = req.scope[RECEIVE]
    event = req.scope[FIRST]
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
async def departure(req: falcon.asgi.Request, watched: bool) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the client goes away; only if *watched*."""
    gone = asyncio.Event()
    if not watched:
        yield gone
        return
    receive = req.scope[RECEIVE]

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    watching: asyncio.Task[Any] = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        watching.cancel()
