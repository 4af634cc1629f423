# SPDX-License-Identifier: Apache-2.0
"""Reads from a replica, for answers that may be a moment old."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import redis
import redis.asyncio
from msgspec.structs import replace
from redis.asyncio.connection import AbstractConnection

from zaqar_redis.keyspace.batch import CommandBatcher
from zaqar_redis.keyspace.script import RedisCommand
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.metrics import definitions as metrics

#: A replica that owes a reply for so many seconds is not asked.
_SILENCE_SECONDS = 0.5


class ReplicaReader:
    """Sends calls to a replica; the primary answers what the replica does not.

    That is also what would write: scripts that read settle first what has become due.
    """

    def __init__(
        self,
        primary: Any,
        replicas: redis.asyncio.ConnectionPool,
        settings: BatchSettings,
        name: str,
        uri: str,
    ) -> None:
        """*replicas* connects to the replica; *name* is the store's, *uri* is for the log."""
        self._primary = primary
        self._replica = CommandBatcher(
            replicas.make_connection,
            replace(settings, ack_replicas=0, memory_share=0),
            f"{uri} (replica)",
            f"{name} (replica)",
            lambda refusal: refusal,  # nobody sees it: the primary is asked
            up=metrics.REPLICA_UP,
        )
        self.start = self._replica.start
        self.close = self._replica.close

    def call(self, call: RedisCommand) -> asyncio.Future[Any]:
        replica = self._replica
        if not replica.is_connected or replica.oldest > _SILENCE_SECONDS:
            primary: asyncio.Future[Any] = self._primary.call(call)
            return primary
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        ask_primary = partial(self._primary.call, call)
        replica.send(call).add_done_callback(partial(_pass_on, answer, ask_primary))
        return answer


class NodeReaders:
    """Sends calls to replicas of the primaries of a Redis Cluster."""

    def __init__(self, cluster: Any, connect: Callable[[Any, str, int], ReplicaReader]) -> None:
        """*cluster*: a `ClusterClient`; *connect* returns a reader for the client of a primary
        from the replica at an address, not started yet."""
        self._cluster = cluster
        self._connect = connect
        #: of the client of each primary that has replicas: the address of one, and its reader
        self._readers: dict[Any, tuple[tuple[str, int], ReplicaReader]] = {}
        self._adjusting = asyncio.Lock()

    def call(self, call: RedisCommand) -> asyncio.Future[Any]:
        slot = call.slot()
        found = None if slot is None else self._readers.get(self._cluster.node_of(slot))
        reader = found[1] if found else self._cluster
        answer: asyncio.Future[Any] = reader.call(call.of_cluster())
        return answer

    async def adjust(self, replicas: Callable[[], Mapping[Any, Sequence[tuple[str, int]]]]) -> None:
        """Opens and closes readers.

        *replicas* returns their addresses, by the client of the primary.
        """
        async with self._adjusting:
            known = replicas()
            gone = [
                each for each, (at, _) in self._readers.items() if at not in known.get(each, ())
            ]
            closing = [self._readers.pop(node)[1] for node in gone]
            opening = []
            for node, addresses in known.items():
                if addresses and node not in self._readers:
                    at = random.choice(addresses)
                    reader = self._connect(node, *at)
                    self._readers[node] = at, reader
                    opening.append(reader.start())
            await asyncio.gather(*opening, *(reader.close() for reader in closing))

    async def close(self) -> None:
        await self.adjust(dict)


async def begin_reading(connection: AbstractConnection) -> None:
    """Opens a connection to a replica of a Redis Cluster, for commands that only read."""
    await connection.on_connect()
    await connection.send_command("READONLY")
    await connection.read_response()


async def begin_reading_copy(connection: AbstractConnection) -> None:
    """Opens a connection to a replica that sentinels name.

    Raises redis.ConnectionError unless it is one, and hears its primary.
    """
    await connection.on_connect()
    await connection.send_command("ROLE")
    expect_replica(await connection.read_response())


def expect_replica(role: Sequence[Any]) -> None:
    """Raises redis.ConnectionError unless ROLE was answered by a replica that hears its primary.

    A primary that was replaced while it hung does not know that for some seconds, and sentinels
    name it as a replica.
    """
    if role[0] != b"slave" or role[3] != b"connected":
        raise redis.ConnectionError("it is no replica that hears its primary")


def _pass_on(
    answer: asyncio.Future[Any],
    otherwise: Callable[[], asyncio.Future[Any]] | None,
    told: asyncio.Future[Any],
) -> None:
    """*otherwise*: asks another one, in the place of what refuses."""
    error = told.exception()
    if answer.done():
        return
    if error is None:
        answer.set_result(told.result())
    elif otherwise is None:
        answer.set_exception(error)
    else:
        otherwise().add_done_callback(partial(_pass_on, answer, None))
