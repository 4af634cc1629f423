# SPDX-License-Identifier: Apache-2.0
"""A client of a Redis Cluster: one batching connection to each primary.

A command goes to the primary that has the slot of its keys.  When that one sends it elsewhere, or
another one has got the slot, all commands of the slot wait until the first primary has answered
those that it has: they are not reordered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AskError, ClusterDownError, MovedError, RedisError, ResponseError

from zaqar_redis import errors, runner
from zaqar_redis.keyspace import cluster, slot_indexes
from zaqar_redis.keyspace.batch import PendingCommand
from zaqar_redis.keyspace.cluster import Primary
from zaqar_redis.keyspace.moving_slots import PAUSE_SECONDS, MovingSlot, until_answered
from zaqar_redis.keyspace.replicas import NodeReaders, ReplicaReader
from zaqar_redis.keyspace.script import RedisCommand
from zaqar_redis.keyspace.settings import BatchSettings

LOG = logging.getLogger(__name__)

#: Seconds between looks at the state of the connections.
_WATCH_INTERVAL_SECONDS = 0.25
#: Seconds between looks at the slots if nothing says that they have changed.
_REFRESH_INTERVAL_SECONDS = 30.0
#: A node that owes a reply for so long may have been replaced.
_SILENCE_SECONDS = 1.0
#: What a script is told when the slots are not as they were.
_IN_SCRIPT = re.compile("non local key|cluster is down")


class ClusterClient:
    def __init__(
        self,
        seeds: Sequence[Primary],
        connect: Callable[[Primary, Callable[[PendingCommand, RedisError], bool]], Any],
        connect_reader: Callable[[Any, str, int], ReplicaReader],
        settings: BatchSettings,
        name: str,
        uri: str,
    ) -> None:
        """*seeds*: nodes that are asked first for the slots; *connect* returns the client of a
        node, not started, which hands over what it refuses; *connect_reader*: of `NodeReaders`."""
        self.name = name
        self.uri = uri
        self._seeds = seeds
        self._connect = connect
        self._readers = NodeReaders(self, connect_reader)
        self.reader: Any = self._readers if settings.read_replicas else self
        #: their addresses, if they are read from
        self._replicas: Mapping[Primary, Sequence[tuple[str, int]]] = {}
        self.settings = settings
        self._nodes: dict[Primary, Any] = {}
        self._ranges: Mapping[Primary, cluster.Ranges] = {}
        #: of each slot the client of its primary
        self._by_slot: list[Any] = [None] * cluster.SLOT_COUNT
        self._moving: dict[int, MovingSlot] = {}
        #: commands that try whether a slot has been moved
        self._trials: set[asyncio.Future[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_known = asyncio.Event()
        self._is_stale = asyncio.Event()
        self._logged_reason = ""
        #: called when slots have moved
        self.on_moved: list[Callable[[], None]] = []

    async def start(self) -> None:
        """Connects; stops waiting, but not trying, after the connect timeout."""
        self._run(self._follow(), "slots of the cluster")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.connect_timeout):
                await self._is_known.wait()

    async def close(self) -> None:
        # Nothing is sent from now on: what tries a slot now may have been done already.
        self._by_slot = [None] * cluster.SLOT_COUNT
        await runner.cancel(*self._tasks)
        for moving in self._moving.values():  # its task may not have begun
            for held in moving:
                _fail(held, errors.StoreUnavailable(self.name))
        await asyncio.gather(
            *(node.close() for node in self._nodes.values()), self._readers.close()
        )

    def call(self, call: RedisCommand) -> asyncio.Future[Any]:
        slot = call.slot()
        if slot is None:
            node = next(iter(self._connected()), None)
        else:
            call = call.of_cluster()
            if self._moving and slot in self._moving:
                return self._hold(self._moving[slot], call)
            node = self._by_slot[slot]
        if node is None:
            return _failed(errors.StoreUnavailable(self.name))
        answer: asyncio.Future[Any] = node.batch.send(call)
        return answer

    def command(self, *parts: bytes | str | int) -> asyncio.Future[Any]:
        return self.call(RedisCommand(*parts))

    async def identity(self) -> str:
        """Returns the smallest id of a node: they survive restarts and failovers."""
        told: bytes = await self.command("CLUSTER", "NODES")
        return min(line.split()[0] for line in told.decode().splitlines()) + "/cluster"

    def connection(self) -> AbstractConnection:
        nodes = self._connected() or [*self._nodes.values()]
        node = random.choice(nodes or [self._open(random.choice(self._seeds))])
        found: AbstractConnection = node.connection()
        return found

    async def until_replaced(self, connection: AbstractConnection) -> None:
        await asyncio.Event().wait()  # those of a node that is gone are closed

    def nodes(self) -> Sequence[Any]:
        if not self._is_known.is_set():
            raise errors.StoreUnavailable(self.name)
        return self.known_nodes()

    def read_again(self) -> None:
        """Reads the slots soon: they may have moved."""
        self._is_stale.set()

    def tag_on(self, node: Any) -> bytes:
        """Returns a hash tag whose slot a node has; empty: it has none."""
        for primary, ranges in self._ranges.items():
            if self._nodes.get(primary) is node:
                return cluster.tag_within(ranges)
        return b""

    def known_nodes(self) -> Sequence[Any]:
        """Returns a client of each primary; none while the slots are not known."""
        return list(self._nodes.values())

    def node_of(self, slot: int) -> Any:
        """Returns the client of the primary that has a slot; None: not known."""
        return self._by_slot[slot]

    def by_node(self, names: Sequence[bytes]) -> Sequence[tuple[Any, Sequence[bytes]]]:
        found: dict[int, tuple[Any, list[bytes]]] = {}
        for name in names:
            node = self._by_slot[slot_indexes.slot_of_key(name)]
            if node is None:
                raise errors.StoreUnavailable(self.name)
            found.setdefault(id(node), (node, []))[1].append(name)
        return list(found.values())

    def _connected(self) -> list[Any]:
        return [node for node in self._nodes.values() if node.batch.is_connected]

    # What a node refuses because of its slots.

    def _take_over(self, node: Any, pending: PendingCommand, refusal: RedisError) -> bool:
        """Takes a command that the node sends elsewhere, or refuses while its slot is moved."""
        if isinstance(refusal, ClusterDownError) or _IN_SCRIPT.search(str(refusal)):
            self._is_stale.set()
        slot = pending.command.slot()
        if (
            not isinstance(refusal, cluster.ELSEWHERE)
            or slot is None
            or pending.answer in self._trials
        ):
            return False
        self._stop_slot(slot, node).refused.append((pending, refusal))
        return True

    def _stop_slot(self, slot: int, source: Any) -> MovingSlot:
        """Lets the commands of a slot wait until *source* has answered those that it has."""
        moving = self._moving.get(slot)
        if moving is None:
            moving = self._moving[slot] = MovingSlot()
            self._run(self._settle(slot, source), "slot that is moved")
        return moving

    def _hold(self, moving: MovingSlot, call: RedisCommand) -> asyncio.Future[Any]:
        if len(moving) >= self.settings.in_flight:
            return _failed(errors.Overloaded(store=self.name))
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        deadline = loop.time() + self.settings.timeout
        moving.waiting.append(PendingCommand(call, b"", answer, deadline))
        return answer

    async def _settle(self, slot: int, source: Any) -> None:
        """Finds out where the slot is, and sends all commands that have waited there."""
        moving = self._moving[slot]
        try:
            await until_answered(source, slot)
            while moving.refused and not await self._try(slot, *moving.refused[0]):
                moving.refused.popleft()
        finally:
            del self._moving[slot]
            node = self._by_slot[slot]
            for held in moving:
                if node is None or held.answer.done():
                    _fail(held, errors.StoreUnavailable(self.name))
                else:
                    node.batch.send_again(held.command, held.answer, held.deadline)

    async def _try(self, slot: int, held: PendingCommand, refusal: RedisError) -> bool:
        """Tries a command until it is done; returns whether it waits for that no longer:
        the slot has been moved, and all of its commands are for another node."""
        loop = asyncio.get_running_loop()
        while loop.time() < held.deadline:
            if isinstance(refusal, MovedError):
                self._by_slot[slot] = await self._node(refusal)
                self._is_stale.set()
                return True
            if isinstance(refusal, AskError):
                node = await self._node(refusal)
                _ignore(node.batch.send(RedisCommand("ASKING")))
            else:
                await asyncio.sleep(PAUSE_SECONDS)
                node = self._by_slot[slot]
            # With its source: a node that lacks the script would forget that it was asked.
            trial = node.batch.send(held.command.with_source())
            self._trials.add(trial)
            try:
                result = await trial
            except errors.StoreRefuses as error:
                if not isinstance(error.__cause__, cluster.ELSEWHERE):
                    _fail(held, error)
                    return False
                refusal = error.__cause__
            except Exception as error:  # it is the command's
                _fail(held, error)
                return False
            else:
                if not held.answer.done():
                    held.answer.set_result(result)
                return False
            finally:
                self._trials.discard(trial)
        _fail(held, errors.StoreTimeout(self.name))
        return False

    async def _node(self, refusal: AskError) -> Any:
        """Returns the node that a refusal names."""
        host = refusal.host or next(iter(self._nodes)).host
        return (await self._opened([Primary(host, refusal.port)]))[0]

    # Which node has which slots.

    async def _follow(self) -> None:
        """Reads the slots when they may have changed."""
        loop, read_at = asyncio.get_running_loop(), 0.0
        while True:
            is_old = loop.time() > read_at + _REFRESH_INTERVAL_SECONDS
            are_well = bool(self._nodes) and all(map(_is_well, self._nodes.values()))
            if self._is_stale.is_set() or is_old or not are_well:
                self._is_stale.clear()
                try:
                    await self._apply(await self._read())
                    self._run(self._readers.adjust(self._replicas_of_nodes), "readers")
                    read_at, self._logged_reason = loop.time(), ""
                except (errors.Unavailable, ResponseError) as error:
                    self._note(errors.reason(error.__cause__ or error))
                except Exception as error:  # whatever it was: slots may move again
                    LOG.exception("the slots were not read", extra={"action": "cluster_slots"})
                    self._note(errors.reason(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WATCH_INTERVAL_SECONDS):
                    await self._is_stale.wait()

    def _note(self, reason: str) -> None:
        # Once: a cluster that is unavailable for an hour would fill the log.
        if reason != self._logged_reason:
            self._logged_reason = reason
            about = {"action": "cluster_slots", "store": self.name}
            LOG.warning("the slots of %s are not known: %s", self.name, reason, extra=about)

    async def _read(self) -> Mapping[Primary, cluster.Ranges]:
        """Raises Unavailable and ResponseError when no node tells them."""
        known = [(each, node) for each, node in self._nodes.items() if _is_well(node)]
        random.shuffle(known)
        problem: Exception = errors.StoreUnavailable(self.name)
        for each, node in known:
            try:
                if slots := await self._told(each, node):
                    return slots
            except (errors.Unavailable, ResponseError) as error:
                problem = error
        for each in self._seeds:
            if each in self._nodes:
                continue
            node = self._open(each)
            try:
                await node.start()
                if slots := await self._told(each, node):
                    return slots
            except (errors.Unavailable, ResponseError) as error:
                problem = error
            finally:
                await node.close()
        raise problem

    async def _told(self, primary: Primary, node: Any) -> Mapping[Primary, cluster.Ranges]:
        """Returns the slots as a node has told them."""
        try:
            async with asyncio.timeout(_SILENCE_SECONDS):
                told, server = await asyncio.gather(
                    node.call(cluster.SLOTS), node.command("INFO", "server")
                )
        except TimeoutError as late:  # another one is asked
            raise errors.StoreTimeout(self.name) from late
        cluster.check_version(server)
        if self.settings.read_replicas:
            self._replicas = cluster.replicas_in(told, primary.host)
        return cluster.slots_in(told, primary.host)

    async def _apply(self, slots: Mapping[Primary, cluster.Ranges]) -> None:
        if slots == self._ranges and self._nodes.keys() == slots.keys():
            return
        by_slot: list[Any] = [None] * cluster.SLOT_COUNT
        for node, ranges in zip(await self._opened([*slots]), slots.values(), strict=True):
            for first, last in ranges:
                by_slot[first : last + 1] = [node] * (last - first + 1)
        for node in self._nodes.values():
            for slot in {command.slot() for command in node.batch.unanswered()} - {None}:
                if by_slot[slot] is not node:
                    self._stop_slot(slot, node)
        gone = [self._nodes.pop(each) for each in [*self._nodes] if each not in slots]
        self._by_slot, self._ranges = by_slot, slots
        self._is_known.set()
        for tell in self.on_moved:
            tell()
        for node in gone:
            self._run(_leave(node), "node that leaves")

    def _replicas_of_nodes(self) -> Mapping[Any, Sequence[tuple[str, int]]]:
        return {self._nodes[each]: at for each, at in self._replicas.items() if each in self._nodes}

    async def _opened(self, wanted: Sequence[Primary]) -> list[Any]:
        """Returns the clients of these nodes."""
        new = [each for each in wanted if each not in self._nodes]
        self._nodes |= {each: self._open(each) for each in new}
        await asyncio.gather(*(self._nodes[each].start() for each in new))
        return [self._nodes[each] for each in wanted]

    def _open(self, primary: Primary) -> Any:
        def take_over(pending: PendingCommand, refusal: RedisError) -> bool:
            return self._take_over(node, pending, refusal)

        node = self._connect(primary, take_over)
        return node

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_well(node: Any) -> bool:
    return bool(node.batch.is_connected and node.batch.oldest < _SILENCE_SECONDS)


async def _leave(node: Any) -> None:
    """Closes the client of a node when it has answered what it has, or is silent."""
    try:
        with contextlib.suppress(errors.Unavailable, TimeoutError):
            async with asyncio.timeout(_SILENCE_SECONDS):
                await node.batch.send(RedisCommand("PING"))
    finally:
        await node.close()


def _failed(error: Exception) -> asyncio.Future[Any]:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    answer.set_exception(error)
    return answer


def _fail(held: PendingCommand, error: Exception) -> None:
    if not held.answer.done():
        held.answer.set_exception(error)


def _ignore(answer: asyncio.Future[Any]) -> None:
    # An exception that nobody asks for would be logged.
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())
