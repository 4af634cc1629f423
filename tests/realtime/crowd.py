# SPDX-License-Identifier: Apache-2.0
"""Clients that write down all that they get, and publishers that note every answer.

What was got is compared with what the channels hold when all is over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from centrifuge import (
    CentrifugeError,
    Client,
    ClientEventHandler,
    ConnectedContext,
    ConnectingContext,
    DisconnectedContext,
    PublicationContext,
    SubscribedContext,
    SubscribingContext,
    SubscriptionEventHandler,
)

from tests import servers
from tests.realtime.conftest import Heard, engine
from zaqar_redis import clock
from zaqar_redis.realtime import packing
from zaqar_redis.realtime.engine import Keep, Since

CHANNELS = ("left", "right")
#: Everybody may do everything; more is kept than a test publishes.
OPTIONS: dict[str, dict[str, object]] = {
    "channels": {
        "insecure": True,
        "presence": True,
        "history_size": 10_000,
        "history_ttl": 600,
        "force_recovery": True,
    }
}
_KEEP = Keep(size=10_000, ttl=600, meta_ttl=3600)
#: Seconds between publications of a channel: what can be missed in a few seconds is less
#: than what is recovered at once.
_PAUSE = 0.02


@dataclass
class Stretch:
    """What a subscriber got since it was told that it begins anew."""

    epoch: str
    #: behind which it begins
    offset: int
    got: list[tuple[int, int]] = field(default_factory=list)


class Subscriber(SubscriptionEventHandler):  # type: ignore[misc]  # the SDK has no types
    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.stretches: list[Stretch] = []
        #: why it had to subscribe, each time
        self.codes: list[int] = []
        #: what cannot be
        self.wrong: list[str] = []

    @property
    def count(self) -> int:
        return sum(len(each.got) for each in self.stretches)

    async def on_subscribing(self, ctx: SubscribingContext) -> None:
        self.codes.append(ctx.code)

    async def on_subscribed(self, ctx: SubscribedContext) -> None:
        at = ctx.stream_position
        if not self.stretches or not ctx.recovered:
            self.stretches.append(Stretch(at.epoch, at.offset))
        elif at.epoch != self.stretches[-1].epoch:
            self.wrong.append(f"recovered in another epoch: {ctx}")

    async def on_publication(self, ctx: PublicationContext) -> None:
        self.stretches[-1].got.append((ctx.pub.offset, ctx.pub.data))


class Member(ClientEventHandler):  # type: ignore[misc]  # the SDK has no types
    """A client that is subscribed to all channels."""

    def __init__(self, service: servers.Service) -> None:
        address = f"ws://127.0.0.1:{service.port}/connection/websocket"
        self.client = Client(address, events=self, max_reconnect_delay=1.0)
        self.id = ""
        #: why it had to connect, each time
        self.codes: list[int] = []
        self.is_over = False
        self.subscribers = [Subscriber(channel) for channel in CHANNELS]

    async def on_connecting(self, ctx: ConnectingContext) -> None:
        self.codes.append(ctx.code)

    async def on_connected(self, ctx: ConnectedContext) -> None:
        self.id = ctx.client

    async def on_disconnected(self, ctx: DisconnectedContext) -> None:
        self.is_over = True

    async def start(self) -> None:
        await self.client.connect()
        for each in self.subscribers:
            subscription = self.client.new_subscription(each.channel, each)
            await subscription.subscribe()
            await subscription.ready(10)


class Publisher:
    """Sends numbers to one channel, each once."""

    def __init__(self, client: Client, channel: str) -> None:
        self._client = client
        self._channel = channel
        self._next = 0
        self.sent: set[int] = set()
        self.acknowledged: list[int] = []
        self.refused = 0

    async def publish(self) -> bool:
        """Whether it was acknowledged."""
        number = self._next
        self._next += 1
        self.sent.add(number)
        try:
            await self._client.publish(self._channel, number)
        except CentrifugeError:
            self.refused += 1
            return False
        self.acknowledged.append(number)
        return True

    async def run(self) -> None:
        while True:
            await self.publish()
            await asyncio.sleep(_PAUSE)


class Crowd:
    def __init__(self, uris: Sequence[str], members: Sequence[Member]) -> None:
        self.uris = uris
        self.members = members
        self.subscribers = [each for member in members for each in member.subscribers]
        self.publishers = {channel: Publisher(members[-1].client, channel) for channel in CHANNELS}
        self._work: list[asyncio.Task[None]] = []

    def publish(self) -> None:
        """From now on."""
        self._work = [asyncio.create_task(each.run()) for each in self.publishers.values()]

    async def stop(self) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def pause(self) -> None:
        """No more, and what is under way arrives."""
        await self.stop()
        for channel in CHANNELS:  # one that is certain, behind those that are not
            publisher = self.publishers[channel]
            await until(publisher.publish, "a publication to be acknowledged")
        await self.has_heard_all()

    async def has_heard_all(self) -> None:
        async def all_heard() -> bool:
            return all(
                each.stretches[-1].got[-1:]
                and each.stretches[-1].got[-1][1] == self.publishers[each.channel].acknowledged[-1]
                for each in self.subscribers
            )

        await until(all_heard, "everybody to hear the last one")

    async def more(self, count: int = 10) -> None:
        """So many more are acknowledged in each channel."""
        goals = {name: len(each.acknowledged) + count for name, each in self.publishers.items()}

        async def reached() -> bool:
            return all(len(self.publishers[name].acknowledged) >= goals[name] for name in goals)

        await until(reached, "publications")

    async def refusals(self, count: int = 3) -> None:
        """So many more are refused in each channel."""
        goals = {name: each.refused + count for name, each in self.publishers.items()}

        async def reached() -> bool:
            return all(self.publishers[name].refused >= goals[name] for name in goals)

        await until(reached, "refusals")

    async def check(self, *, lives: int = 1) -> None:
        """Everybody was told of each of the channels' *lives*, and got all of the last one.

        Of the lives before they got what they got in order, without a hole.
        """
        for channel, publisher in self.publishers.items():
            epoch, held = await _held(self.uris, channel)
            assert set(held.values()) <= publisher.sent
            if lives == 1:
                assert set(publisher.acknowledged) <= set(held.values())
            for each in self.subscribers:
                if each.channel == channel:
                    _check(each, lives, epoch, held)

    def check_sockets(self, members: Sequence[Member] | None = None) -> None:
        """All of them are those of the beginning."""
        for member in self.members if members is None else members:
            assert not member.is_over
            assert len(member.codes) == 1, member.codes


def _check(subscriber: Subscriber, lives: int, epoch: str, held: dict[int, int]) -> None:
    assert subscriber.wrong == []
    assert len(subscriber.stretches) == lives, subscriber.codes
    for stretch in subscriber.stretches:
        offsets = [offset for offset, _ in stretch.got]
        first = stretch.offset + 1
        assert offsets == list(range(first, first + len(offsets)))
        numbers = [number for _, number in stretch.got]
        assert numbers == sorted(set(numbers))
    last = subscriber.stretches[-1]
    assert last.epoch == epoch
    assert last.got == [each for each in sorted(held.items()) if each[0] > last.offset]


async def _held(uris: Sequence[str], channel: str) -> tuple[str, dict[int, int]]:
    """The epoch of a channel, and what it holds by offset."""
    store = engine(uris, clock.store)
    await store.start("judge", Heard())
    try:
        kept, top = await store.history.history(f"default/{channel}", Since(), _KEEP)
    finally:
        await store.close()
    found = [packing.unpacked(each.payload, each.offset) for each in kept]
    return top.epoch, {each.offset: msgspec.json.decode(bytes(each.data)) for each in found}


async def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Unlike `servers.wait_for` it lets clients work.  Raises TimeoutError."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = condition()
                if await found if asyncio.iscoroutine(found) else found:
                    return
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise TimeoutError(what) from None


@contextlib.asynccontextmanager
async def gathered(
    uris: Sequence[str], *services: servers.Service, each: int = 4
) -> AsyncIterator[Crowd]:
    """So many clients of each service, over these Redis; the last one publishes too."""
    members = [Member(service) for service in services for _ in range(each)]
    crowd = Crowd(uris, members)
    try:
        for member in members:
            await member.start()
        crowd.publish()
        await crowd.more()
        yield crowd
    finally:
        await crowd.stop()
        for member in members:
            await member.client.disconnect()
        # The SDK closes sockets in tasks of its own.
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=10)
