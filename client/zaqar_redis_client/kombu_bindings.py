# SPDX-License-Identifier: Apache-2.0
"""The queues that are bound to the exchanges of kombu, in metadata that all processes share.

The bindings of the exchange `news` are metadata of the topic `kombu.news`, one name for each:
[queue, routing key, pattern, end].  Only a queue that expires has an end, in seconds since 1970,
which the channel that has declared it renews.  Whoever binds next removes what has ended, and its
queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
from typing import Any

from zaqar_redis_client.clients import AsyncClient
from zaqar_redis_client.errors import NotFound, Refused, ZaqarError

_NAME = re.compile(r"[a-zA-Z0-9_.\-]{1,64}")
#: Where queues that expire are kept: AMQP binds each queue to the exchange without a name.
_ANONYMOUS = ""
#: Seconds that a queue which expires lives at least after its last renewal.
_LEAST = 60.0
#: Seconds for which clocks of machines may differ.
_SKEW = 300.0
#: Attempts to change what others change at the same time.
_ATTEMPTS = 10


def known_name(name: str) -> str:
    """Returns the name of a queue in the service, which takes 64 of its characters."""
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{re.sub(r'[^a-zA-Z0-9_.-]', '_', name)[:47]}-{digest}"


class Bindings:
    """The bindings of all exchanges, as one channel sees them.

    All coroutines raise Refused and Unavailable.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        #: seconds, of the queues that this channel has declared and that expire
        self._expires: dict[str, float] = {}
        #: what this channel has bound of each of them: exchange, routing key and pattern
        self._bound: dict[str, set[tuple[str, str, str | None]]] = {}

    def expires(self, queue: str, seconds: float) -> None:
        self._expires[queue] = max(seconds, _LEAST)
        self._bound.setdefault(queue, set()).add((_ANONYMOUS, queue, None))

    async def table(self, exchange: str) -> list[tuple[str, str | None, str]]:
        """Returns routing key, pattern and queue of each binding."""
        rows = _rows(await self._topic(exchange).metadata())
        return [(routing_key, pattern, queue) for queue, routing_key, pattern, _ in rows.values()]

    async def bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        self._bound.setdefault(queue, set()).add((exchange, routing_key, pattern))
        now = time.time()
        end = round(now + self._expires[queue]) if queue in self._expires else None
        key, row = _key(queue, routing_key), [queue, routing_key, pattern, end]
        rows = _rows(await self._topic(exchange).metadata())
        if rows.get(key) == row:
            return
        over = {
            name: found[0]
            for name, found in rows.items()
            if name != key and (found[3] or now) + _SKEW < now
        }
        await self._change(exchange, {key: row, **dict.fromkeys(over)})
        for each in {*over.values()}:
            await self._client.queue(known_name(each)).delete()

    async def unbind(self, exchange: str, routing_key: str, queue: str) -> None:
        bound = self._bound.get(queue, set())
        bound -= {each for each in bound if each[:2] == (exchange, routing_key)}
        await self._change(exchange, {_key(queue, routing_key): None})

    async def forget(self, queue: str) -> None:
        """Removes what this channel has bound of a queue."""
        self._expires.pop(queue, None)
        for exchange, routing_key, _ in self._bound.pop(queue, set()):
            await self._change(exchange, {_key(queue, routing_key): None})

    async def delete(self, exchange: str) -> None:
        await self._topic(exchange).delete()

    async def renew(self, queue: str) -> None:
        for exchange, routing_key, pattern in [*self._bound.get(queue, ())]:
            await self.bind(exchange, routing_key, pattern, queue)

    async def keep(self) -> None:
        """Renews the bindings of queues that expire, until it is cancelled."""
        while True:
            await asyncio.sleep(min(self._expires.values(), default=_LEAST) / 3)
            for queue in [*self._expires]:
                with contextlib.suppress(ZaqarError):  # the next time
                    await self.renew(queue)

    async def _change(self, exchange: str, metadata: dict[str, Any]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                await self._topic(exchange).update(**metadata)
            except NotFound:
                if not any(metadata.values()):
                    return
                await self._topic(exchange).create()
            except Refused as error:
                if error.status != 409 or attempt + 1 == _ATTEMPTS:
                    raise
                await asyncio.sleep(0.01 * 2**attempt)
            else:
                return

    def _topic(self, exchange: str) -> Any:
        return self._client.topic(known_name(f"kombu.{exchange}"))


def _key(queue: str, routing_key: str) -> str:
    text = f"{queue}\0{routing_key}"
    return "binding-" + hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _rows(metadata: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: row for name, row in metadata.items() if name.startswith("binding-")}
