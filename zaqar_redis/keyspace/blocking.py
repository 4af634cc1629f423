# SPDX-License-Identifier: Apache-2.0
"""Clients for threads: the plugin, Spark and the command line."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import redis
from msgspec.structs import replace
from redis.exceptions import AskError, MovedError, NoScriptError, RedisError, ResponseError

from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import cluster, sentinel, slot_indexes, uris
from zaqar_redis.keyspace.cluster import Primary
from zaqar_redis.keyspace.memory_guard import LOOK, MemoryGuard
from zaqar_redis.keyspace.moving_slots import PAUSE_SECONDS
from zaqar_redis.keyspace.replicas import expect_replica
from zaqar_redis.keyspace.replication import confirmation
from zaqar_redis.keyspace.script import Call, RedisCommand
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.keyspace.uris import redact_password


def client(uri: str, settings: BatchSettings, connections: int = 64) -> BlockingClient:
    """Returns a client.  Raises BadConfiguration when the URI cannot be used.

    *connections* is their maximum, to each Redis; further threads wait for one.
    """
    uri = keyspace.validate_uri(uri)
    kind = BlockingClusterClient if uris.is_cluster(uri) else BlockingClient
    return kind(uri, settings, connections)


class BlockingClient:
    """A client of one Redis."""

    def __init__(
        self,
        uri: str,
        settings: BatchSettings,
        connections: int,
        *,
        replicas: bool = False,
        in_cluster: bool = False,
    ) -> None:
        """*replicas*: it asks replicas; of a cluster also a primary that has none.
        *in_cluster*: it is that of a node; another client knows where the slots are."""
        self._in_cluster = in_cluster
        self._begin(uri, settings, connections)
        is_fake = urlsplit(uri).scheme == "memory"  # it has no limit
        self._guard = MemoryGuard(0 if is_fake else settings.memory_share, self.name)
        self._look_at = 0.0
        self._redis = _connect(uri, settings, connections, replicas=replicas)
        # Answers as Redis gives them, whichever way a command is sent.
        self._redis.response_callbacks.clear()

    def _begin(self, uri: str, settings: BatchSettings, connections: int) -> None:
        self.name = redact_password(uri)
        self.reader = self
        self.settings = settings
        self.connections = connections
        #: asks replicas, whose answers may be old; none by default, and with one Redis
        self.replicas: BlockingClient | None = None
        if settings.read_replicas and (uris.is_sentinel(uri) or uris.is_cluster(uri)):
            only_reads = replace(settings, read_replicas=False, ack_replicas=0, memory_share=0)
            self.replicas = type(self)(uri, only_reads, connections, replicas=True)

    def call(self, call: RedisCommand) -> Any:
        if call.writes and self.settings.ack_replicas:
            return self.calls([call])[0]
        self._refuse_if_full([call])
        try:
            return self._redis.execute_command(*call.command())
        except NoScriptError as error:
            if not isinstance(call, Call):
                raise self._translated(error) from error
            return self.call(call.with_source())
        except (RedisError, OSError) as error:
            raise self._translated(error) from error

    def command(self, *parts: bytes | str | int) -> Any:
        return self.call(RedisCommand(*parts))

    def calls(self, calls: Sequence[RedisCommand]) -> list[Any]:
        """Returns the answers of calls that are sent together, but are not atomic."""
        answers = self.answers(calls)
        for answer in answers:
            if isinstance(answer, RedisError):
                raise self._translated(answer) from answer
        return answers

    def commands(self, *commands: tuple[bytes | str | int, ...]) -> list[Any]:
        """Returns the answers of plain commands, as `calls` does."""
        return self.calls([RedisCommand(*command) for command in commands])

    def answers(self, calls: Sequence[RedisCommand]) -> list[Any]:
        """Returns the answers of calls that are sent together; those refused are RedisErrors."""
        self._refuse_if_full(calls)
        replicas = self.settings.ack_replicas
        written = [call for call in calls if replicas and call.writes]
        asked = confirmation(written, replicas, self.settings.ack_timeout_ms) if written else ()
        with self._redis.pipeline(transaction=False) as pipeline:
            for call in (*calls, *asked):
                pipeline.execute_command(*call.command())
            try:
                answers = pipeline.execute(raise_on_error=False)
            except (RedisError, OSError) as error:
                raise self._translated(error) from error
        if asked:
            *answers, _, confirmed = answers
            self._expect_confirmed(confirmed, replicas)
        for place, answer in enumerate(answers):
            if isinstance(answer, NoScriptError) and isinstance(calls[place], Call):
                answers[place] = self.answers([calls[place].with_source()])[0]
        return answers

    def _expect_confirmed(self, confirmed: int | RedisError, replicas: int) -> None:
        """*confirmed*: by how many replicas, or why the primary did not wait for them."""
        if isinstance(confirmed, RedisError):
            raise self._translated(confirmed) from confirmed
        if confirmed < replicas:
            raise errors.NotReplicated(self.name, replicas=replicas)

    def listeners(self, *names: bytes) -> Sequence[redis.client.PubSub]:
        """Returns listeners to channels to which scripts publish, of each Redis that has some.

        Raises RedisError, OSError and StoreUnavailable.
        """
        listener = self._pubsub()
        listener.subscribe(*names)
        return [listener]

    def _pubsub(self) -> redis.client.PubSub:
        return cast(redis.client.PubSub, self._redis.pubsub())

    def nodes(self) -> Sequence[BlockingClient]:
        """Returns a client of each Redis that has keys.  Raises `errors.StoreUnavailable`."""
        return [self]

    def close(self) -> None:
        self._redis.close()
        if self.replicas is not None:
            self.replicas.close()

    def _refuse_if_full(self, calls: Sequence[RedisCommand]) -> None:
        """Raises StoreFull when the store has no memory for one of the calls."""
        if self._guard.is_off or not any(call.needs_memory for call in calls):
            return
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + self._guard.pause
            try:
                self._guard.note(self._redis.execute_command(*LOOK.command()))
            except (RedisError, OSError) as error:
                refusal = self._translated(error)
                if not isinstance(refusal, ResponseError):
                    raise refusal from error
                # Its user may not: Redis itself refuses then, when it is full.
                self._look_at = math.inf
        if self._guard.is_full:
            raise self._guard.refusal()

    def _translated(self, error: Exception) -> Exception:
        return keyspace.translate_error(error, self.name, in_cluster=self._in_cluster)


class BlockingClusterClient(BlockingClient):
    """A client of a Redis Cluster, with a client of each primary."""

    def __init__(
        self, uri: str, settings: BatchSettings, connections: int, *, replicas: bool = False
    ) -> None:
        self._begin(uri, settings, connections)
        self._in_cluster = True
        self._asks_replicas = replicas
        self._uri = uri
        self._seeds = [Primary(*each) for each in uris.hosts(uri, keyspace.PORT)]
        self._nodes: dict[Primary, BlockingClient] = {}
        self._by_slot: list[BlockingClient | None] = [None] * cluster.SLOT_COUNT
        self._is_stale = True
        self._reading = threading.Lock()

    def call(self, call: RedisCommand) -> Any:
        return self.calls([call])[0]

    def answers(self, calls: Sequence[RedisCommand]) -> list[Any]:
        self._read_slots()
        calls = [call.of_cluster() for call in calls]
        places: dict[int, list[int]] = {}
        slots = [call.slot() for call in calls]
        # What has no key goes where the others go: their answers belong together, e.g. to TIME.
        usual = next((slot for slot in slots if slot is not None), None)
        nodes = [self._node_of(usual if slot is None else slot) for slot in slots]
        for place, node in enumerate(nodes):
            places.setdefault(id(node), []).append(place)
        answers: list[Any] = [None] * len(calls)
        for some in places.values():
            found = self._ask(nodes[some[0]], [calls[place] for place in some])
            for place, answer in zip(some, found, strict=True):
                answers[place] = answer
        # In their order, one by one: each waits until its slot has been moved.
        for place, answer in enumerate(answers):
            if isinstance(answer, cluster.ELSEWHERE):
                answers[place] = self._follow(calls[place], answer)
        return answers

    def listeners(self, *names: bytes) -> Sequence[redis.client.PubSub]:
        self._read_slots()
        found: dict[BlockingClient, redis.client.PubSub] = {}
        for name in names:
            node = self._node_of(slot_indexes.slot_of_key(name))
            listener = found.get(node)
            if listener is None:
                listener = found[node] = node._pubsub()
            listener.ssubscribe(name)  # a command takes those of one slot
        return [*found.values()]

    def nodes(self) -> Sequence[BlockingClient]:
        self._read_slots()
        return [*dict.fromkeys(node for node in self._by_slot if node is not None)]

    def close(self) -> None:
        for node in (*self._nodes.values(), *([self.replicas] if self.replicas else ())):
            node.close()

    def _ask(self, node: BlockingClient, calls: Sequence[RedisCommand]) -> list[Any]:
        try:
            return node.answers(calls)
        except errors.StoreUnavailable:
            self._is_stale = True  # its primary may have been replaced
            raise

    def _follow(self, call: RedisCommand, refusal: RedisError) -> Any:
        """Sends a call where its slot is."""
        end = time.monotonic() + self.settings.timeout
        call = call.with_source()  # a node that lacks the script would forget that it was asked
        while isinstance(refusal, cluster.ELSEWHERE):
            if time.monotonic() >= end:
                raise errors.StoreTimeout(self.name) from refusal
            if isinstance(refusal, AskError) and not isinstance(refusal, MovedError):
                # Without an address it means the machine of the node that was asked.
                host = refusal.host or next(iter(self._nodes)).host
                node = self._open(Primary(host, refusal.port))
                _, answer = self._ask(node, [RedisCommand("ASKING"), call])
            else:
                if isinstance(refusal, MovedError):
                    self._is_stale = True
                    self._read_slots()
                time.sleep(PAUSE_SECONDS)
                (answer,) = self._ask(self._node_of(call.slot()), [call])
            refusal = answer
        return refusal

    def _node_of(self, slot: int | None) -> BlockingClient:
        if slot is None:
            return random.choice(self.nodes())
        node = self._by_slot[slot]
        if node is None:
            self._is_stale = True
            raise errors.StoreUnavailable(self.name)
        return node

    def _open(self, node: Primary) -> BlockingClient:
        if node not in self._nodes:
            uri = uris.of_node(self._uri, *node)
            self._nodes[node] = BlockingClient(
                *(uri, self.settings, self.connections),
                replicas=self._asks_replicas,
                in_cluster=True,
            )
        return self._nodes[node]

    def _read_slots(self) -> None:
        """Reads which node has which slots, if that may have changed."""
        if not self._is_stale:
            return None
        with self._reading:
            if not self._is_stale:
                return None
            problem: Exception = errors.StoreUnavailable(self.name)
            for each in dict.fromkeys((*self._nodes, *self._seeds)):
                try:
                    told, server = self._open(each).calls(
                        [cluster.SLOTS, RedisCommand("INFO", "server")]
                    )
                    cluster.check_version(server)
                except (errors.Unavailable, RedisError) as error:
                    problem = error
                    continue
                if slots := cluster.slots_in(told, each.host):
                    replicas = cluster.replicas_in(told, each.host) if self._asks_replicas else {}
                    return self._apply(slots, replicas)
            raise problem

    def _apply(
        self,
        slots: Mapping[Primary, cluster.Ranges],
        replicas: Mapping[Primary, Sequence[tuple[str, int]]],
    ) -> None:
        by_slot: list[BlockingClient | None] = [None] * cluster.SLOT_COUNT
        for primary, ranges in slots.items():
            addresses = replicas.get(primary)
            node = self._open(Primary(*random.choice(addresses)) if addresses else primary)
            for first, last in ranges:
                by_slot[first : last + 1] = [node] * (last - first + 1)
        self._by_slot, self._is_stale = by_slot, False


def _connect(uri: str, settings: BatchSettings, connections: int, *, replicas: bool) -> redis.Redis:
    if urlsplit(uri).scheme == "memory":
        fake: redis.Redis = keyspace.fakeredis().FakeRedis(
            server=keyspace.fake_server(uri), protocol=2
        )
        return fake
    options = keyspace.connection_options(settings) | {
        "max_connections": connections,
        "timeout": settings.timeout,
    }
    if uris.is_sentinel(uri):
        if replicas:
            options["redis_connect_func"] = _begin_reading_copy
        pool = sentinel.blocking_pool(uri, options, replicas=replicas)
        return redis.Redis(connection_pool=pool)
    if replicas:
        options["redis_connect_func"] = _begin_reading
    return redis.Redis(connection_pool=redis.BlockingConnectionPool.from_url(uri, **options))


def _begin_reading_copy(connection: redis.connection.AbstractConnection) -> None:
    """Does the same as `replicas.begin_reading_copy`."""
    connection.on_connect()
    connection.send_command("ROLE")
    expect_replica(connection.read_response())


def _begin_reading(connection: redis.connection.AbstractConnection) -> None:
    """Opens a connection to a node of a Redis Cluster, for commands that only read."""
    connection.on_connect()
    connection.send_command("READONLY")
    connection.read_response()
