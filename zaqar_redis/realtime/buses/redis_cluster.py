# SPDX-License-Identifier: Apache-2.0
"""A bus over a Redis Cluster, by sharded PUB/SUB: a bus for each primary.

A channel is on the primary that has its slot.  Channels of the nodes are on all primaries, by
names whose hash tag is in a slot of each, and the first copy of a message counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import cluster, keys, slot_indexes, uris
from zaqar_redis.keyspace.pubsub import SHARDED_PUBSUB
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.realtime.bus import Bus, BusSettings, Deliver, OnDropped, ignore_dropped
from zaqar_redis.realtime.buses.redis import RedisBus
from zaqar_redis.realtime.buses.sharded import ShardedBus, is_of_nodes

LOG = logging.getLogger(__name__)

#: Seconds to wait until the slots are known.
_START_TIMEOUT_SECONDS = 4.0
#: Seconds between looks at the slots: messages on those that have moved are missed meanwhile.
_LOOK_INTERVAL_SECONDS = 1.0


class _Shard(NamedTuple):
    """What a bus depends on: it is replaced when one of them changes."""

    node: cluster.Primary
    tag: bytes


class RedisClusterBus:
    def __init__(self, uri: str, settings: BusSettings) -> None:
        self.name = uris.redact_password(uri)
        self._settings = settings
        self._uri = uri
        self._seeds = [uris.of_node(uri, *host) for host in uris.hosts(uri, 6379)]
        self._batch = BatchSettings(
            connect_timeout=settings.connect_timeout, backlog_bytes=settings.backlog_bytes
        )
        for seed in self._seeds:
            keyspace.validate_uri(seed)
        #: the node that has told the slots last: asking one that is down would be logged each time
        self._answering = self._seeds[0]
        self._slots: Mapping[cluster.Primary, cluster.Ranges] = {}
        self._by_shard: dict[_Shard, RedisBus] = {}
        #: those of the primaries, in the order of their addresses
        self._buses: list[Bus] = []
        self._sharded = ShardedBus(self._buses, self._bus_of, self.name)
        #: wanted channels, and the bus that each was subscribed on last
        self._wanted: dict[bytes, Bus | None] = {}
        self._permanent: Sequence[bytes] = ()
        self._on_gap: Callable[[], None]
        self._on_dropped: OnDropped
        self._is_known = asyncio.Event()
        self._adjusting = asyncio.Lock()
        self._logged_reason = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def live(self) -> bool:
        return self._task is not None and self._sharded.live

    async def start(
        self,
        deliver: Deliver,
        on_gap: Callable[[], None],
        channels: Sequence[bytes],
        on_dropped: OnDropped = ignore_dropped,
    ) -> None:
        if self._task is not None:
            return
        self._on_gap, self._permanent, self._on_dropped = on_gap, channels, on_dropped
        await self._sharded.start(deliver, on_gap, channels)
        self._task = asyncio.create_task(self._follow(), name="slots of the bus")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_TIMEOUT_SECONDS):
                await self._is_known.wait()

    async def stop(self) -> None:
        if self._task is None:
            return
        task, self._task = self._task, None
        async with self._adjusting:  # else buses that are started or stopped meanwhile were lost
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._sharded.stop()

    async def subscribe(self, channel: bytes) -> None:
        self._wanted.setdefault(channel, None)
        bus = self._find(channel)
        if bus is None:
            raise errors.BusUnavailable(self.name)
        self._wanted[channel] = bus
        await bus.subscribe(channel)

    async def unsubscribe(self, channel: bytes) -> None:
        bus = self._wanted.pop(channel, None)
        if bus is not None:
            await bus.unsubscribe(channel)

    def publish(self, channel: bytes, payload: bytes) -> int | None:
        if not self._reaches(channel):
            metrics.BUS_DROPPED.add(self.name, "unavailable")
            self._on_dropped(channel)
            return None
        return self._sharded.publish(channel, payload)

    async def send(self, channel: bytes, payload: bytes) -> int | None:
        if not self._reaches(channel):
            raise errors.BusUnavailable(self.name)
        return await self._sharded.send(channel, payload)

    def _reaches(self, channel: bytes) -> bool:
        return bool(self._buses) if is_of_nodes(channel) else self._find(channel) is not None

    def _find(self, channel: bytes) -> Bus | None:
        slot = slot_indexes.slot_of_key(keys.of_bus_channel(channel))
        for (_, ranges), bus in zip(self._slots.items(), self._buses, strict=True):
            if cluster.has_slot(ranges, slot):
                return bus
        return None

    def _bus_of(self, channel: bytes) -> Bus:
        bus = self._find(channel)
        if bus is None:
            raise errors.BusUnavailable(self.name)
        return bus

    async def _follow(self) -> None:
        """Reads the slots again and again, and moves what has moved."""
        while True:
            try:
                slots = await self._read()
                self._logged_reason = ""
                if slots != self._slots:
                    async with self._adjusting:
                        await self._adjust(slots)
            except (errors.Unavailable, keyspace.CommandRefused) as error:
                self._note(errors.reason(error))
            except Exception as error:  # whatever it was: slots may move again
                LOG.exception("the slots were not followed", extra={"action": "bus_slots"})
                self._note(errors.reason(error))
            await asyncio.sleep(_LOOK_INTERVAL_SECONDS)

    def _note(self, reason: str) -> None:
        # Once: a cluster that is unavailable for an hour would fill the log.
        if reason != self._logged_reason:
            self._logged_reason = reason
            LOG.warning(
                "the slots of the bus %s are not known: %s",
                self.name,
                reason,
                extra={"action": "bus_slots"},
            )

    async def _read(self) -> Mapping[cluster.Primary, cluster.Ranges]:
        """Raises Unavailable and CommandRefused when no node answers."""
        problem: Exception = errors.BusUnavailable(self.name)
        known = [uris.of_node(self._uri, *node) for node in self._slots]
        for uri in dict.fromkeys((self._answering, *known, *self._seeds)):
            try:
                async with keyspace.connected(uri, self._batch) as client:
                    told = await client.call(cluster.SLOTS)
                if slots := cluster.slots_in(told, str(urlsplit(uri).hostname)):
                    self._answering = uri
                    return slots
            except (errors.Unavailable, keyspace.CommandRefused) as error:
                problem = error
        raise problem

    async def _adjust(self, slots: Mapping[cluster.Primary, cluster.Ranges]) -> None:
        wanted = {_Shard(node, cluster.tag_within(ranges)): node for node, ranges in slots.items()}
        gone = [self._by_shard.pop(shard) for shard in [*self._by_shard] if shard not in wanted]
        new = [self._new(shard) for shard in wanted if shard not in self._by_shard]
        await asyncio.gather(*(bus.stop() for bus in gone))
        await asyncio.gather(
            *(
                bus.start(
                    self._sharded.deliver_once, self._on_gap, self._permanent, self._on_dropped
                )
                for bus in new
            )
        )
        self._slots, self._buses[:] = slots, [self._by_shard[shard] for shard in wanted]
        await self._move()
        if self._is_known.is_set():
            self._on_gap()
        self._is_known.set()

    async def _move(self) -> None:
        """Subscribes to channels where they are now."""
        moving = []
        for channel, old in self._wanted.items():
            bus = self._find(channel)
            if bus is not None and bus is not old:
                moving.append((channel, old, bus))
        self._wanted.update((channel, bus) for channel, _, bus in moving)
        for channel, old, _ in moving:
            if old in self._buses:
                await old.unsubscribe(channel)
        # One that is not confirmed in time stays wanted.
        await asyncio.gather(
            *(bus.subscribe(channel) for channel, _, bus in moving), return_exceptions=True
        )

    def _new(self, shard: _Shard) -> RedisBus:
        def name_of(channel: bytes) -> bytes:
            tag = b"{%s}" % shard.tag if is_of_nodes(channel) else b""
            return keys.of_bus_channel(tag + channel)

        bus = self._by_shard[shard] = RedisBus(
            keyspace.client(uris.of_node(self._uri, *shard.node), self._batch),
            self._settings,
            name_of,
            commands=SHARDED_PUBSUB,
            owns_client=True,
            max_names=1,  # a command takes those of one slot
        )
        return bus


def create(uri: str, settings: BusSettings) -> Bus:
    """Returns a bus over a cluster: ``redis+cluster://[[user]:pw@]host:port[,host:port...]``."""
    return RedisClusterBus(uri, settings)
