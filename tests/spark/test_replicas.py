# SPDX-License-Identifier: Apache-2.0
"""What tasks read from replicas (`readReplicas`), and what they ask the primary for."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import pytest

from tests.support import servers
from tests.support.redis_cluster import redis_cluster
from tests.support.redis_node import RedisNode
from tests.support.redis_sentinel import redis_sentinel
from tests.support.spark_reads import SparkTestStore, columns, pickled, task
from tests.support.stores import PATIENT
from zaqar_redis import errors
from zaqar_redis.keyspace import blocking
from zaqar_redis.keyspace.blocking import BlockingClient
from zaqar_redis.storage.redis.bulk.range_reader import RangeFields, RangeReader

_MESSAGES = 500


class _Replicated(NamedTuple):
    store: SparkTestStore
    replicas: Sequence[RedisNode]

    def pages(self) -> int:
        """Returns how many pages replicas have given."""
        return sum(map(_pages, self.replicas))

    def wait(self) -> None:
        """Waits until the replicas have what was posted."""
        for node in self.store.client.nodes():
            servers.wait_for(partial(_is_copied, node), "a replica to have all")

    def read(self, **options: object) -> list[int]:
        data_source = self.store.source(subscribe="q", fetchSize=100, **options)
        reader = data_source.reader(columns(data_source))
        (partition,) = reader.partitions()
        batches = task(data_source, pickled(reader), columns(data_source), partition)
        return [rank for batch in batches for rank in batch.column("rank").to_pylist()]


def _is_copied(primary: BlockingClient) -> bool:
    """Waits for a second at most, which is less than the timeout of a reply."""
    return int(primary.command("WAIT", 1, 1000)) >= 1


def _pages(server: RedisNode | servers.RedisServer) -> int:
    with server.client() as client:
        stats = client.info("commandstats")
    assert isinstance(stats, dict)
    calls: int = stats.get("cmdstat_hmget", {}).get("calls", 0)
    return calls


@pytest.fixture(scope="module", params=["sentinel", "cluster"])
def replicated(request: pytest.FixtureRequest) -> Iterator[_Replicated]:
    if request.param == "sentinel":
        with redis_sentinel(replicas=1, sentinels=1) as found:
            yield from _filled(found.uri, found.servers[1:])
    else:
        with redis_cluster(replicas=3) as cluster:
            yield from _filled(cluster.uri, cluster.replicas)


def _filled(uri: str, replicas: Sequence[RedisNode]) -> Iterator[_Replicated]:
    store = SparkTestStore(uri, "p")
    try:
        store.post(*range(_MESSAGES))
        filled = _Replicated(store, replicas)
        filled.wait()
        yield filled
    finally:
        store.close()


def test_tasks_read_messages_from_replicas_if_asked_to(replicated: _Replicated) -> None:
    before = replicated.pages()
    assert replicated.read() == list(range(1, _MESSAGES + 1))
    assert replicated.pages() == before
    assert replicated.read(readReplicas=True) == list(range(1, _MESSAGES + 1))
    assert replicated.pages() == before + _MESSAGES / 100


def test_primary_is_read_while_replicas_hang(replicated: _Replicated) -> None:
    for each in replicated.replicas:
        each.signal(signal.SIGSTOP)
    try:
        found = replicated.read(readReplicas=True, timeout="5s")
        assert found == list(range(1, _MESSAGES + 1))
    finally:
        for each in replicated.replicas:
            each.signal(signal.SIGCONT)


def test_primary_is_read_where_a_replica_lags_behind() -> None:
    with servers.redis_server() as primary, servers.redis_server() as late:
        store = SparkTestStore(primary.uri, "p")
        store.post(1, 2, 3)
        store.command("CONFIG", "SET", "repl-diskless-sync-delay", 0)
        replica = blocking.client(late.uri, PATIENT)
        replica.command("REPLICAOF", "127.0.0.1", primary.open_port())
        servers.wait_for(
            lambda: b"master_link_status:up" in replica.command("INFO", "replication"), "a copy"
        )
        replica.command("REPLICAOF", "NO", "ONE")
        late_pages = _pages(late)
        store.post(4)
        store.client.replicas = replica
        reader = RangeReader(store.client, "p", "q", store.watermarks().epoch)

        def ranks(end: int) -> list[int]:
            pages = reader.pages(1, end, 100, RangeFields())
            return [
                rank
                for page in pages
                for rank, envelope in zip(page.ranks, page.envelopes, strict=True)
                if envelope is not None
            ]

        assert ranks(4) == [1, 2, 3]
        assert _pages(late) == late_pages + 1
        assert ranks(5) == [1, 2, 3, 4]
        assert _pages(late) == late_pages + 1
        store.close()


def test_consumer_does_not_take_claims_from_replicas(store: SparkTestStore) -> None:
    data_source = store.source(subscribe="q", consume="claim", group="g", readReplicas=True)
    with pytest.raises(errors.BadConfiguration, match='"readReplicas" means nothing'):
        data_source.streamReader(columns(data_source))
