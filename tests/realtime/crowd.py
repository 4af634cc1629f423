# SPDX-License-Identifier: Apache-2.0
"""Subscribers that record all publications, and publishers that record every reply.

At the end the received publications are compared with the channels' histories.
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

from tests.realtime.conftest import RecordingEventHandler, engine
from tests.support import servers
from zaqar_redis import clock
from zaqar_redis.realtime.engine import HistoryFilter, HistoryOptions
from zaqar_redis.realtime.node import packing

CHANNELS = ("left", "right")
#: All permissions; the history is larger than what a test publishes.
OPTIONS: dict[str, dict[str, object]] = {
    "channels": {
        "insecure": True,
        "presence": True,
        "history_size": 10_000,
        "history_ttl": 600,
        "force_recovery": True,
    }
}
_KEEP = HistoryOptions(size=10_000, ttl=600, meta_ttl=3600)
#: Seconds between publications of a channel: what a client misses in a few seconds
#: is recovered at once.
_PAUSE = 0.02


@dataclass
class EpochSegment:
    """Publications received since a subscription that was not recovered."""

    epoch: str
    #: offset before the first publication
    offset: int
    publications: list[tuple[int, int]] = field(default_factory=list)


class FleetSubscription(SubscriptionEventHandler):  # type: ignore[misc]  # the SDK has no types
    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.segments: list[EpochSegment] = []
        #: codes of its subscribing events
        self.codes: list[int] = []
        #: violations of the protocol's rules
        self.violations: list[str] = []

    @property
    def count(self) -> int:
        return sum(len(each.publications) for each in self.segments)

    async def on_subscribing(self, ctx: SubscribingContext) -> None:
        self.codes.append(ctx.code)

    async def on_subscribed(self, ctx: SubscribedContext) -> None:
        at = ctx.stream_position
        if not self.segments or not ctx.recovered:
            self.segments.append(EpochSegment(at.epoch, at.offset))
        elif at.epoch != self.segments[-1].epoch:
            self.violations.append(f"recovered in another epoch: {ctx}")

    async def on_publication(self, ctx: PublicationContext) -> None:
        self.segments[-1].publications.append((ctx.pub.offset, ctx.pub.data))


class FleetClient(ClientEventHandler):  # type: ignore[misc]  # the SDK has no types
    """A client with subscriptions to all channels."""

    def __init__(self, service: servers.RunningService) -> None:
        address = f"ws://127.0.0.1:{service.port}/connection/websocket"
        self.client = Client(address, events=self, max_reconnect_delay=1.0)
        self.id = ""
        #: codes of its connecting events
        self.codes: list[int] = []
        self.is_over = False
        self.subscribers = [FleetSubscription(channel) for channel in CHANNELS]

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
            await subscription.ready(60)


class SequencePublisher:
    """Publishes ascending numbers to one channel, each once."""

    def __init__(self, client: Client, channel: str) -> None:
        self._client = client
        self._channel = channel
        self._next = 0
        self.sent: set[int] = set()
        self.acknowledged: list[int] = []
        self.refused = 0

    async def publish(self) -> bool:
        """Publishes the next number; returns whether it was acknowledged."""
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


class SubscriberFleet:
    def __init__(self, uris: Sequence[str], members: Sequence[FleetClient]) -> None:
        self.uris = uris
        self.members = members
        self.subscribers = [each for member in members for each in member.subscribers]
        self.publishers = {
            channel: SequencePublisher(members[-1].client, channel) for channel in CHANNELS
        }
        self._work: list[asyncio.Task[None]] = []

    def publish(self) -> None:
        """Starts to publish to all channels."""
        self._work = [asyncio.create_task(each.run()) for each in self.publishers.values()]

    async def stop(self) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def pause(self) -> None:
        """Stops publishing, and waits until all subscribers received everything."""
        await self.stop()
        for channel in CHANNELS:  # an acknowledged one, after those of unknown outcome
            publisher = self.publishers[channel]
            await until(publisher.publish, "a publication to be acknowledged")
        await self.wait_until_all_received()

    async def finish(
        self, *, epochs: int = 1, members: Sequence[FleetClient] | None = None
    ) -> None:
        """Stops publishing; checks that nothing was lost, and that no member ever reconnected."""
        await self.pause()
        await self.check(epochs=epochs)
        self.check_sockets(members)

    async def wait_until_all_received(self) -> None:
        async def all_received() -> bool:
            return all(
                each.segments[-1].publications[-1:]
                and each.segments[-1].publications[-1][1]
                == self.publishers[each.channel].acknowledged[-1]
                for each in self.subscribers
            )

        await until(all_received, "all subscribers to receive the last publication")

    async def wait_for_acknowledged(self, count: int = 10) -> None:
        """Waits until *count* more publications are acknowledged in each channel."""
        await self._wait_for_more(count, lambda each: len(each.acknowledged), "publications")

    async def wait_for_refused(self, count: int = 3) -> None:
        """Waits until *count* more publications are refused in each channel."""
        await self._wait_for_more(count, lambda each: each.refused, "refusals")

    async def _wait_for_more(
        self, count: int, number: Callable[[SequencePublisher], int], what: str
    ) -> None:
        goals = {name: number(each) + count for name, each in self.publishers.items()}
        await until(
            lambda: all(number(each) >= goals[name] for name, each in self.publishers.items()), what
        )

    async def wait_for_epochs(self, count: int) -> None:
        """Waits until all subscribers saw *count* epochs: one that comes later receives nothing
        of what was published before."""
        await until(
            lambda: all(len(each.segments) == count for each in self.subscribers),
            "all subscribers to resubscribe",
        )

    async def check(self, *, epochs: int = 1) -> None:
        """Checks that all subscribers saw *epochs* epochs, and all publications of the last one.

        In earlier epochs, what they received is in order and without gaps.
        """
        for channel, publisher in self.publishers.items():
            epoch, stored = await _stored_history(self.uris, channel)
            assert set(stored.values()) <= publisher.sent
            if epochs == 1:
                assert set(publisher.acknowledged) <= set(stored.values())
            for each in self.subscribers:
                if each.channel == channel:
                    _check(each, epochs, epoch, stored)

    def check_sockets(self, members: Sequence[FleetClient] | None = None) -> None:
        """Checks that no member ever reconnected."""
        for member in self.members if members is None else members:
            assert not member.is_over
            assert len(member.codes) == 1, member.codes


def _check(subscriber: FleetSubscription, epochs: int, epoch: str, stored: dict[int, int]) -> None:
    assert subscriber.violations == []
    assert len(subscriber.segments) == epochs, subscriber.codes
    for segment in subscriber.segments:
        offsets = [offset for offset, _ in segment.publications]
        first = segment.offset + 1
        assert offsets == list(range(first, first + len(offsets)))
        numbers = [number for _, number in segment.publications]
        assert numbers == sorted(set(numbers))
    last = subscriber.segments[-1]
    assert last.epoch == epoch
    assert last.publications == [each for each in sorted(stored.items()) if each[0] > last.offset]


async def _stored_history(uris: Sequence[str], channel: str) -> tuple[str, dict[int, int]]:
    """Returns the epoch of a channel, and its history by offset."""
    store = engine(uris, clock.store)
    await store.start("judge", RecordingEventHandler())
    try:
        kept, position = await store.history.history(f"default/{channel}", HistoryFilter(), _KEEP)
    finally:
        await store.close()
    found = [packing.unpack_publication(each.payload, each.offset) for each in kept]
    return position.epoch, {each.offset: msgspec.json.decode(bytes(each.data)) for each in found}


async def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Waits without blocking the event loop, unlike `servers.wait_for`; raises TimeoutError."""
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
async def subscriber_fleet(
    uris: Sequence[str], *services: servers.RunningService, each: int = 4
) -> AsyncIterator[SubscriberFleet]:
    """Yields a fleet of *each* clients per service; the last client publishes too."""
    members = [FleetClient(service) for service in services for _ in range(each)]
    fleet = SubscriberFleet(uris, members)
    try:
        for member in members:
            await member.start()
        fleet.publish()
        await fleet.wait_for_acknowledged()
        yield fleet
    finally:
        await fleet.stop()
        for member in members:
            await member.client.disconnect()
        # The SDK closes sockets in background tasks.
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=10)
