# SPDX-License-Identifier: Apache-2.0
"""A bus over PUB/SUB of one Redis.

Frames leave with all other commands of the iteration in one write, and what arrives in one read
is delivered at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.listeners import listen
from zaqar_redis.keyspace.pubsub import MAX_NAMES, PUBSUB, PubSubCommands
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.realtime.bus import Bus, BusSettings
from zaqar_redis.realtime.buses.batching import FramedBus, Packs, pack_all


class RedisBus(FramedBus):
    def __init__(
        self,
        client: AsyncClient,
        settings: BusSettings,
        pubsub_name: Callable[[bytes], bytes] = keys.of_bus_channel,
        *,
        commands: PubSubCommands | None = PUBSUB,
        owns_client: bool = False,
        max_names: int = MAX_NAMES,
        packs: Packs = pack_all,
    ) -> None:
        """*pubsub_name* returns the PUB/SUB name of a channel; *commands*: None: sharded PUB/SUB
        where the server has it; *owns_client*: the bus opens and closes it; *max_names*: of
        channels, in one command; *packs*: whether messages on a channel travel together."""
        super().__init__(client.name, settings.backlog_bytes, packs)
        self._client = client
        self._owns_client = owns_client
        self._pubsub_name = pubsub_name
        self._listener = listen(client, self._on_message, self._on_reconnect, commands, max_names)
        #: PUB/SUB name -> channel
        self._channels: dict[bytes, bytes] = {}

    @property
    def live(self) -> bool:
        return self._is_started and self._listener.live

    async def _open(self, channels: Sequence[bytes]) -> None:
        names = [self._pubsub_name(channel) for channel in channels]
        self._channels.update(zip(names, channels, strict=True))
        if self._owns_client:
            await self._client.start()
            if not self._is_started:  # it was stopped meanwhile
                return
        self._listener.start(*names)
        with contextlib.suppress(errors.StoreUnavailable):
            await self._listener.confirmed(names[-1])

    async def _close(self) -> None:
        await self._listener.close()
        if self._owns_client:
            await self._client.close()

    async def subscribe(self, channel: bytes) -> None:
        name = self._pubsub_name(channel)
        self._channels[name] = channel
        try:
            await self._listener.subscribe(name)
        except errors.StoreUnavailable as error:
            raise errors.BusUnavailable(self.name) from error

    async def unsubscribe(self, channel: bytes) -> None:
        name = self._pubsub_name(channel)
        self._channels.pop(name, None)
        await self._listener.unsubscribe(name)

    async def send(self, channel: bytes, payload: bytes) -> int | None:
        try:
            return await super().send(channel, payload)
        except (errors.StoreUnavailable, keyspace.CommandRefused) as error:
            if not self._owns_client:
                raise  # it says of a store that it is away
            raise errors.BusUnavailable(self.name) from error

    def _write(self, channel: bytes, frame: bytes) -> asyncio.Future[int | None]:
        commands = self._listener.commands
        if commands is None:  # there was no connection yet
            written: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
            written.set_exception(errors.BusUnavailable(self.name))
            return written
        return asyncio.ensure_future(
            self._client.command(commands.publish, self._pubsub_name(channel), frame)
        )

    def _on_message(self, name: bytes, frame: bytes) -> None:
        channel = self._channels.get(name)
        if channel is not None:
            self._deliver_frame(channel, frame)

    def _on_reconnect(self) -> None:
        metrics.BUS_LOST.add(self.name)
        self._on_gap()


def create(uri: str, settings: BusSettings) -> Bus:
    """Returns a bus with connections of its own, over sharded PUB/SUB where the server has it."""
    batch = BatchSettings(
        connect_timeout=settings.connect_timeout, backlog_bytes=settings.backlog_bytes
    )
    return RedisBus(keyspace.client(uri, batch), settings, commands=None, owns_client=True)
