# SPDX-License-Identifier: Apache-2.0
"""The service's client of a Redis Cluster, while slots move and primaries fail."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from tests.availability.queues import POST, PROJECT, message, numbered_queue
from tests.realtime.crowd import until
from tests.support.redis_cluster import RedisCluster, redis_cluster
from tests.support.servers import free_port
from tests.support.stores import PATIENT
from zaqar_redis import errors
from zaqar_redis.keyspace import blocking, keys, slot_indexes
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.cluster_client import ClusterClient
from zaqar_redis.keyspace.script import RedisCommand
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.keyspace.slot_indexes import slot_of_key
from zaqar_redis.storage.redis import sweeper
from zaqar_redis.storage.redis.blocking import BlockingRedisStore

#: Keys of no queue.
_MOVED, _ONCE = b"moved", b"once"
#: A script that asks for a key that it does not name.
_AWAY = f"return redis.call('GET', '{_MOVED.decode()}')"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with redis_cluster(replicas=3) as found:
        # On a busy machine, or paused by a test, a primary is silent for a while.
        _fail_over_after(found, 60_000)
        yield found


def _fail_over_after(cluster: RedisCluster, milliseconds: int) -> None:
    """Lets a primary be replaced when it is silent for so long."""
    for node in (*cluster.primaries, *cluster.replicas):
        node.command("CONFIG", "SET", "cluster-node-timeout", milliseconds)


def _slot(queue: str) -> int:
    slot = RedisCommand("GET", keys.of_queue(PROJECT, queue).queue).slot()
    assert slot is not None
    return slot


class _Moves:
    """Moves the slots of queues again and again, in a thread."""

    def __init__(self, cluster: RedisCluster, *queues: str) -> None:
        self._cluster = cluster
        self._slots = [_slot(queue) for queue in queues]
        self._stop = threading.Event()
        self.count = 0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            for slot in self._slots:
                source = self._cluster.node_of(slot)
                at = self._cluster.primaries.index(source)
                self._cluster.move_slot(slot, source, self._cluster.primaries[at - 1], 0.005)
            self.count += 1
            time.sleep(0.02)

    def __enter__(self) -> _Moves:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


async def test_commands_of_a_queue_keep_their_order_while_its_slot_moves(
    cluster: RedisCluster,
) -> None:
    async with numbered_queue(cluster.uri, "moving") as queue:
        await queue.post()
        with _Moves(cluster, "moving") as moves:
            while moves.count < 6:
                # They leave in one write; none waits for the one before.
                await asyncio.gather(*(queue.post() for _ in range(20)))
                await asyncio.sleep(0.005)
        assert queue.acknowledged == list(range(len(queue.acknowledged)))
        assert await queue.found() == queue.acknowledged


async def test_commands_of_a_queue_keep_their_order_while_the_slots_are_read_again(
    cluster: RedisCluster,
) -> None:
    async with numbered_queue(cluster.uri, "reread") as queue:
        other = queue.beside("other")
        assert await queue.post()
        assert await other.post()
        with _Moves(cluster, "reread", "other") as moves:
            posts = []
            while moves.count < 4:
                # Some are always without a reply, also while the client learns of a move.
                posts += [asyncio.ensure_future(queue.post()) for _ in range(3)]
                posts.append(asyncio.ensure_future(other.post()))
                await asyncio.sleep(0.001)
            assert all(await asyncio.gather(*posts))
        assert await queue.found() == sorted(queue.acknowledged)


async def test_watchers_of_a_queue_follow_its_slot(cluster: RedisCluster) -> None:
    # Two clients: the one that only listens learns of a move from its listener.
    async with (
        numbered_queue(cluster.uri, "watched") as posting,
        numbered_queue(cluster.uri, "watched") as watching,
    ):
        hinted = asyncio.Event()

        def hint(posted: int) -> None:
            if posted:
                hinted.set()

        await watching.watch(hint)
        for _ in range(3):
            source = cluster.node_of(_slot("watched"))
            at = cluster.primaries.index(source)
            target = cluster.primaries[at - 1]
            await asyncio.to_thread(cluster.move_slot, _slot("watched"), source, target)
            hinted.clear()
            async with asyncio.timeout(60):
                while not hinted.is_set():
                    assert await posting.post()
                    await asyncio.sleep(0.02)


def test_threads_follow_slots_that_move(cluster: RedisCluster) -> None:
    client = blocking.client(cluster.uri, PATIENT)
    with contextlib.closing(client), _Moves(cluster, "threads") as moves:
        store = BlockingRedisStore(client)
        posted = 0
        while moves.count < 4:
            store.messages.post(PROJECT, "threads", message(posted), **POST).run()
            posted += 1
        of = keys.of_queue(PROJECT, "threads")
        found = client.calls([RedisCommand("ZCARD", of.messages), RedisCommand("PING")])
    assert found == [posted, b"PONG"]


def test_node_that_is_used_without_its_cluster_says_so(cluster: RedisCluster) -> None:
    node = next(
        each for each in cluster.primaries if each is not cluster.node_of(slot_of_key(_MOVED))
    )
    uri = f"redis://127.0.0.1:{node.port}"
    script = "return redis.call('GET', KEYS[1])"

    async def ask(*command: bytes | str | int) -> None:
        async with keyspace.connected(uri, PATIENT) as client:
            await client.command(*command)

    for command in (("GET", _MOVED), ("EVAL", script, 1, _MOVED), ("EVAL", _AWAY, 0)):
        with pytest.raises(errors.StoreInCluster, match=r"must begin with redis\+cluster"):
            asyncio.run(ask(*command))
        client = blocking.client(uri, PATIENT)
        with contextlib.closing(client), pytest.raises(errors.StoreInCluster):
            client.command(*command)


def _hold_up(seconds: float) -> str:
    """Returns a script that keeps a server busy."""
    now = "local time = redis.call('TIME') return 1000 * time[1] + time[2] / 1000"
    return (
        f"local function now() {now} end local till = now() + {1000 * seconds} "
        "while now() < till do end return 1"
    )


async def test_commands_of_a_queue_keep_their_order_while_the_node_that_had_its_slot_is_overloaded(
    cluster: RedisCluster,
) -> None:
    settings = BatchSettings(in_flight=16, batch_commands=1)
    async with keyspace.connected(cluster.uri, settings) as client:
        assert isinstance(client, ClusterClient)
        slot = slot_of_key(_MOVED)
        node = client.node_of(slot)
        names = (b"other%d" % number for number in itertools.count())
        other = next(name for name in names if client.node_of(slot_of_key(name)) is node)
        source = cluster.node_of(slot)
        at = cluster.primaries.index(source)
        await asyncio.to_thread(cluster.move_slot, slot, source, cluster.primaries[at - 1])

        async def crowd() -> None:
            while True:
                for _ in range(settings.in_flight):
                    client.command("GET", other).add_done_callback(_outcome)
                await asyncio.sleep(0)

        first = client.command("RPUSH", _MOVED, 1)
        # The server answers before it has read all of this, and then is busy for a while.
        rest = [
            client.command("SET", other, bytes(400_000)),
            client.command("EVAL", _hold_up(1), 1, other),
            client.command("RPUSH", _MOVED, 2),
        ]
        crowding = asyncio.create_task(crowd())
        await first
        rest.append(client.command("RPUSH", _MOVED, 3))
        await asyncio.gather(*rest)
        crowding.cancel()
        await until(partial(_is_answered, client), "the node to be idle")
        assert await client.command("LRANGE", _MOVED, 0, -1) == [b"1", b"2", b"3"]


def _outcome(answer: asyncio.Future[Any]) -> None:
    if not isinstance(answer.exception(), errors.Overloaded):
        answer.result()


async def _is_answered(client: keyspace.AsyncClient) -> bool:
    with contextlib.suppress(errors.Overloaded):
        return bool(await client.command("EXISTS", _MOVED))
    return False


async def test_command_that_waits_for_a_slot_is_not_done_twice_when_the_client_is_closed(
    cluster: RedisCluster,
) -> None:
    slot = slot_of_key(_ONCE)
    source = cluster.node_of(slot)
    target = cluster.primaries[cluster.primaries.index(source) - 1]
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id())
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id())

    try:
        # The command does not time out before it is seen to be sent.
        async with keyspace.connected(cluster.uri, BatchSettings(timeout=60)) as client:
            assert isinstance(client, ClusterClient)
            target.pause()
            # The key is new, so the source sends it to the target.
            change = client.command("RPUSH", _ONCE, 1)
            others = [node for node in client.nodes() if node is not client.node_of(slot)]
            await until(partial(_is_sent, others), "the command to be sent to the target")
            await asyncio.to_thread(source.command, "CLUSTER", "SETSLOT", slot, "STABLE")
        with pytest.raises(errors.StoreUnavailable):
            await change
    finally:
        target.resume()
        target.command("CLUSTER", "SETSLOT", slot, "STABLE")
    assert source.command("LRANGE", _ONCE, 0, -1) == []


async def _is_sent(nodes: Sequence[Any]) -> bool:
    unanswered = itertools.chain(*(node.batch.unanswered() for node in nodes))
    return any(command.command()[0] == "RPUSH" for command in unanswered)


async def test_client_that_is_closed_while_it_reads_the_slots_ends(cluster: RedisCluster) -> None:
    for number in range(200):
        async with asyncio.timeout(60), keyspace.connected(cluster.uri, PATIENT) as client:
            assert isinstance(client, ClusterClient)
            client.read_again()
            await asyncio.sleep(0.0002 * (number % 20))


def test_threads_do_not_ask_a_node_that_is_gone(cluster: RedisCluster) -> None:
    uri = cluster.uri.replace("//", f"//127.0.0.1:{free_port()},")
    with contextlib.closing(blocking.client(uri, PATIENT)) as client:
        for _ in range(50):
            assert client.command("PING") == b"PONG"


def test_thread_that_is_sent_on_without_an_address_asks_the_same_machine(
    cluster: RedisCluster,
) -> None:
    slot = slot_of_key(_ONCE)
    source = cluster.node_of(slot)
    target = cluster.primaries[cluster.primaries.index(source) - 1]
    addresses = ("CONFIG", "SET", "cluster-preferred-endpoint-type")
    source.command(*addresses, "unknown-endpoint")
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id())
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id())
    try:
        with contextlib.closing(blocking.client(cluster.uri, PATIENT)) as client:
            assert client.command("SET", _ONCE, 1, "PX", 1) == b"OK"
            assert isinstance(client, blocking.BlockingClusterClient)
            assert all(node.host for node in client._nodes)  # "" works on this machine alone
    finally:
        for node in (source, target):
            node.command("CLUSTER", "SETSLOT", slot, "STABLE")
        source.command(*addresses, "ip")


async def test_store_is_back_when_the_replica_of_a_killed_primary_is_promoted(
    cluster: RedisCluster,
) -> None:
    async with numbered_queue(cluster.uri, "failing") as queue:
        assert await queue.post()
        _fail_over_after(cluster, 1500)
        cluster.node_of(_slot("failing")).kill()
        async with asyncio.timeout(60):
            while len(queue.acknowledged) < 20:
                await queue.post()
                await asyncio.sleep(0.01)
        assert [each for each in await queue.found() if each] == queue.acknowledged[1:]


@pytest.mark.nightly
async def test_slots_of_a_primary_that_hangs_are_read_from_another_node() -> None:
    with redis_cluster(replicas=3) as cluster:
        slot = _slot("hanging")
        # No command times out within the test: that would tell, too.
        async with keyspace.connected(cluster.uri, BatchSettings(timeout=600)) as client:
            assert isinstance(client, ClusterClient)
            hanging = client.node_of(slot)
            cluster.node_of(slot).pause()

            async def is_replaced() -> bool:
                client.read_again()
                return client.node_of(slot) is not hanging

            await until(is_replaced, "the client to learn of the new primary")


async def test_script_on_a_node_that_hears_of_no_other_finds_the_store_unavailable() -> None:
    with redis_cluster() as cluster:
        left, *gone = cluster.primaries
        index = slot_indexes.of_sweeps()[0]  # of the first slot, which the first node has
        async with keyspace.connected(cluster.uri, PATIENT) as client:
            ((node, _),) = client.by_node([index])
            for each in gone:
                each.kill()
            await until(lambda: left.info()["cluster_state"] == "fail", "the cluster to be down")
            with pytest.raises(errors.StoreRefuses):
                await sweeper.listed(node, [index], 0, 1, 0)
