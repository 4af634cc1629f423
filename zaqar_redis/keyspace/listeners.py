# SPDX-License-Identifier: Apache-2.0
"""PUB/SUB listeners, of one Redis or of a Redis Cluster.

In a cluster each channel is subscribed on the primary of its slot, where scripts publish to it: so
they learn whether anybody listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from zaqar_redis import errors, runner
from zaqar_redis.keyspace import slot_indexes
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.cluster_client import ClusterClient
from zaqar_redis.keyspace.pubsub import (
    CONFIRM_TIMEOUT_SECONDS,
    MAX_NAMES,
    PUBSUB,
    SHARDED_PUBSUB,
    PubSubCommands,
    PubSubListener,
)

#: What the listener of a node has that has no permanent channel; the tag is in a slot of the node.
_IDLE = b"zr:idle:{%b}"


def listen(
    client: AsyncClient,
    on_message: Callable[[bytes, bytes], None],
    on_reconnect: Callable[[], None],
    commands: PubSubCommands | None = PUBSUB,
    max_names: int = MAX_NAMES,
) -> Listener:
    """Returns a listener; its arguments are those of `PubSubListener`."""
    if isinstance(client, ClusterClient):
        return ClusterListener(client, on_message, on_reconnect, commands, max_names)
    return PubSubListener(client, on_message, on_reconnect, commands, max_names)


def commands_of_scripts(client: AsyncClient) -> PubSubCommands:
    """Returns the commands for channels to which scripts publish that are in the slot of their
    keys (`script_source`)."""
    return SHARDED_PUBSUB if isinstance(client, ClusterClient) else PUBSUB


class ClusterListener:
    """A listener on each primary; a channel moves with its slot."""

    def __init__(
        self,
        client: ClusterClient,
        on_message: Callable[[bytes, bytes], None],
        on_reconnect: Callable[[], None],
        commands: PubSubCommands | None,
        max_names: int,
    ) -> None:
        self._client = client
        self._on_message = on_message
        self._on_reconnect = on_reconnect
        self.commands = commands
        self._max_names = max_names
        self._permanent: Sequence[bytes] = ()
        self._listeners: dict[AsyncClient, PubSubListener] = {}
        #: wanted channels, and the listener that each was subscribed by last
        self._wanted: dict[bytes, PubSubListener | None] = {}
        #: somebody waited in vain for the slots
        self._is_late = False
        self._has_moved = asyncio.Event()
        self._is_adjusted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, *permanent: bytes) -> None:
        self._permanent = permanent
        self._wanted |= dict.fromkeys(permanent)
        self._client.on_moved.append(self._has_moved.set)
        self._has_moved.set()
        self._task = asyncio.create_task(self._follow(), name="listeners of the cluster")

    async def close(self) -> None:
        if self._task is None:
            return
        self._client.on_moved.remove(self._has_moved.set)
        await runner.cancel(self._task)
        await asyncio.gather(*(each.close() for each in self._listeners.values()))

    @property
    def live(self) -> bool:
        return bool(self._listeners) and all(each.live for each in self._listeners.values())

    async def subscribe(self, name: bytes) -> None:
        listener = None
        if self._wanted.get(name) is None:
            listener = self._wanted[name] = self._find(name)
        if listener is not None:
            await listener.subscribe(name)
        else:
            await self.confirmed(name)

    async def unsubscribe(self, name: bytes) -> None:
        listener = self._wanted.pop(name, None)
        if listener is not None:
            await listener.unsubscribe(name)

    async def confirmed(self, name: bytes) -> None:
        try:
            async with asyncio.timeout(CONFIRM_TIMEOUT_SECONDS):
                await self._is_adjusted.wait()
            listener = self._wanted[name]
        except (TimeoutError, KeyError):
            self._is_late |= name in self._wanted
            listener = None
        except asyncio.CancelledError:  # of a caller with less patience, e.g.
            self._is_late |= name in self._wanted
            raise
        if listener is None:
            raise errors.StoreUnavailable(self._client.name)
        await listener.confirmed(name)

    def _find(self, name: bytes) -> PubSubListener | None:
        node = self._client.node_of(slot_indexes.slot_of_key(name))
        return self._listeners.get(node)

    async def _follow(self) -> None:
        while True:
            await self._has_moved.wait()
            self._has_moved.clear()
            has_moved = await self._adjust()
            if has_moved and (self._is_adjusted.is_set() or self._is_late):
                self._is_late = False
                self._on_reconnect()  # messages may have been missed meanwhile
            if self._listeners:
                self._is_adjusted.set()

    async def _adjust(self) -> bool:
        """Subscribes to channels where they are now; returns whether any has moved."""
        nodes = self._client.known_nodes()
        gone = [self._listeners.pop(each) for each in [*self._listeners] if each not in nodes]
        for node in nodes:
            if node not in self._listeners:
                self._listeners[node] = self._opened(node)
        moving = [
            (name, old, new)
            for name, old in self._wanted.items()
            if (new := self._find(name)) is not old
        ]
        self._wanted.update((name, new) for name, _, new in moving)
        for name, old, _ in moving:
            if old is not None and old not in gone:
                await old.unsubscribe(name)
        # One that is not confirmed in time stays wanted.
        await asyncio.gather(
            *(new.subscribe(name) for name, _, new in moving if new is not None),
            *(each.close() for each in gone),
            return_exceptions=True,
        )
        return bool(moving)

    def _opened(self, node: AsyncClient) -> PubSubListener:
        is_sharded = self.commands == SHARDED_PUBSUB
        listener = PubSubListener(
            node,
            self._on_message,
            self._on_reconnect,
            self.commands,
            1 if is_sharded else self._max_names,  # a command takes those of one slot
            self._client.read_again,
        )
        listener.start(_IDLE % self._client.tag_on(node))
        return listener


#: Subscriptions to channels, which survive the loss of a connection.
Listener = PubSubListener | ClusterListener
