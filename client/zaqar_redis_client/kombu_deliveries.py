# SPDX-License-Identifier: Apache-2.0
"""What a channel of kombu has claimed: until it is acknowledged, its leases are renewed.

Requests are made in the event loop of the client's thread, where the coroutines of this module
run; all else is for the thread of the channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

from zaqar_redis_client.blocking import _Loop
from zaqar_redis_client.claims import PAGE, AsyncLease, acknowledge, give_back, started
from zaqar_redis_client.clients import AsyncClient
from zaqar_redis_client.errors import Unavailable
from zaqar_redis_client.kombu_bindings import known_name
from zaqar_redis_client.records import Message

#: Seconds of a long poll.
_WAIT = 20.0
#: Seconds for which claims may fail: then the connection does.
_FAILING, _PAUSE = 10.0, 1.0
#: Acknowledgements on their way, at most: those of a worker with all that it may prefetch.
_ACKS = 1000
#: Seconds for the last requests of a channel; what they do not reach comes back by itself.
_LAST = 5.0


def at_last(*coroutines: Coroutine[Any, Any, Any]) -> None:
    """Runs them for some seconds at most, whatever becomes of them."""

    async def run() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST):
                await asyncio.gather(*coroutines, return_exceptions=True)

    _Loop.run(run())


@dataclass
class _QueueConsumer:
    queue: str
    is_acknowledging: bool
    pump: asyncio.Task[None] | None = None


class Deliveries:
    """The consumers of a channel, and the messages that it holds.

    *prefetch*: returns how many messages may be held, 0 for any number.  *wake* is called when
    something has arrived, *fail* when no more can.
    """

    def __init__(
        self,
        client: AsyncClient,
        lease: int,
        prefetch: Callable[[], int],
        wake: Callable[[], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._client = client
        self._lease = lease
        self._prefetch, self._wake, self._fail = prefetch, wake, fail
        self._consumers: dict[str, _QueueConsumer] = {}
        #: by delivery tag; bounded by the prefetch count
        self._leases: dict[str, AsyncLease] = {}
        #: by queue; without a prefetch count 20 for each consumer at most
        self._arrived: deque[tuple[_QueueConsumer, dict[str, Any]]] = deque()
        self._room = asyncio.Event()
        self._acks: set[Future[None]] = set()

    def begin(self, consumer_tag: str, queue: str, *, no_ack: bool) -> None:
        consumer = _QueueConsumer(queue, not no_ack)
        self._consumers[consumer_tag] = consumer

        async def begin() -> None:
            consumer.pump = started(self._pump(consumer))
            consumer.pump.add_done_callback(self._ended)

        _Loop.run(begin())

    def end(self, consumer_tag: str) -> None:
        """Gives back what has arrived for a consumer and was not taken."""
        consumer = self._consumers.pop(consumer_tag, None)
        if consumer is not None:
            at_last(self._end(consumer))

    def take(self, can_hold: Callable[[], bool]) -> tuple[str, bool, dict[str, Any]] | None:
        """Returns a message, its queue before, and whether it will be acknowledged."""
        if not self._arrived or (self._arrived[0][0].is_acknowledging and not can_hold()):
            return None
        consumer, payload = self._arrived.popleft()
        self.has_room()
        return consumer.queue, consumer.is_acknowledging, payload

    def has_room(self) -> None:
        """Called when more messages may be held."""
        _Loop._loop().call_soon_threadsafe(self._room.set)

    def done(self, delivery_tag: str) -> None:
        """Deletes a message, in the background."""
        lease = self._leases.get(delivery_tag)
        if lease is None:
            return
        if len(self._acks) >= _ACKS:
            wait([*self._acks], return_when=FIRST_COMPLETED)
        ack = asyncio.run_coroutine_threadsafe(self._ack(delivery_tag, lease), _Loop._loop())
        self._acks.add(ack)
        ack.add_done_callback(self._acks.discard)

    def give_back(self, delivery_tags: Iterable[str]) -> None:
        """Makes messages available to others, at once or when their leases end."""
        at_last(self._release([*delivery_tags]))

    def flush(self) -> None:
        """Waits for the acknowledgements."""
        wait([*self._acks], timeout=_LAST)

    def _ended(self, pump: asyncio.Task[None]) -> None:
        error = None if pump.cancelled() else pump.exception()
        if error is not None:
            self._fail(error)

    async def _pump(self, consumer: _QueueConsumer) -> None:
        seconds, fails_since = 0.0, math.inf
        while True:
            room = self._free(consumer)
            if room < 1:
                self._room.clear()
                await self._room.wait()
                continue
            try:
                limit = max(1, min(PAGE, room // max(1, len(self._consumers))))
                leases = await self._claim(consumer.queue, limit, seconds)
            except Unavailable as error:
                fails_since = min(fails_since, time.monotonic())
                if not error.may_be_done or time.monotonic() - fails_since > _FAILING:
                    raise
                await asyncio.sleep(_PAUSE)  # what it may have claimed comes back by itself
                seconds = 0.0
                continue
            seconds, fails_since = 0.0 if len(leases) == limit else _WAIT, math.inf
            self._receive(leases, consumer)

    async def _claim(self, queue: str, limit: int, seconds: float) -> list[AsyncLease]:
        source = self._client.queue(known_name(queue))
        return await source._leases(limit, ttl=self._lease, wait=seconds)

    def _free(self, consumer: _QueueConsumer) -> int:
        count = self._prefetch() if consumer.is_acknowledging else 0
        return count - len(self._leases) if count else PAGE - len(self._arrived)

    def _receive(self, leases: list[AsyncLease], consumer: _QueueConsumer) -> None:
        room = max(0, self._free(consumer))
        for lease in leases[:room]:
            payload = self._held(lease)
            if payload is not None:
                self._arrived.append((consumer, payload))
        self._wake()
        # Other consumers of the channel were faster: their messages have taken the room.
        started(give_back(leases[room:]))

    def _held(self, lease: AsyncLease) -> dict[str, Any] | None:
        """Returns a message that was claimed; None: it has expired."""
        tag = f"{lease.claim.id}/{lease.message.id}"
        self._leases[tag] = lease
        if _is_expired(lease.message):
            started(self._ack(tag, lease))
            return None
        return _payload(lease.message, tag)

    async def get(self, queue: str) -> dict[str, Any] | None:
        """Claims one message; None: there is none now."""
        while leases := await self._claim(queue, 1, 0):
            payload = self._held(leases[0])
            if payload is not None:
                return payload
        return None

    async def _end(self, consumer: _QueueConsumer) -> None:
        if consumer.pump:
            consumer.pump.cancel()
            await asyncio.wait([consumer.pump])
        back = [each for each in self._arrived if each[0] is consumer]
        for each in back:
            self._arrived.remove(each)
        await self._release([payload["properties"]["delivery_tag"] for _, payload in back])

    async def _ack(self, delivery_tag: str, lease: AsyncLease) -> None:
        try:
            await acknowledge(lease)
        finally:
            self._forget([delivery_tag])

    async def _release(self, delivery_tags: list[str]) -> None:
        leases = [self._leases[tag] for tag in delivery_tags if tag in self._leases]
        try:
            await give_back(leases)
        finally:
            self._forget(delivery_tags)

    def _forget(self, delivery_tags: Iterable[str]) -> None:
        for tag in delivery_tags:
            self._leases.pop(tag, None)
        self._room.set()
        if self._arrived:
            self._wake()


def _is_expired(message: Message) -> bool:
    # Zaqar's own TTL is a minute at least.
    try:
        return message.age * 1000 >= int(message.body["properties"]["expiration"])
    except (KeyError, TypeError, ValueError):
        return False


def _payload(message: Message, tag: str) -> dict[str, Any]:
    """Returns a message as kombu knows it; all of one that others have posted is its body."""
    payload: dict[str, Any] = message.body
    known = payload.get("properties") if isinstance(payload, dict) and "body" in payload else None
    if not isinstance(known, dict):
        known = {}
        is_binary = isinstance(message.body, bytes)
        payload = {
            "body": message.body if is_binary else json.dumps(message.body),
            "content-type": message.content_type or "application/json",
            "content-encoding": "binary" if is_binary else "utf-8",
            "headers": {},
        }
    info = known.get("delivery_info")
    payload["properties"] = known | {
        "delivery_tag": tag,
        "delivery_info": {
            **(info if isinstance(info, dict) else {}),
            "redelivered": message.claim_count > 1,
        },
    }
    return payload
