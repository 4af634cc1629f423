# SPDX-License-Identifier: Apache-2.0
"""The kinds of stores that the suites run on: one table for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import redis
import redis.sentinel

from tests.support import servers
from tests.support.redis_cluster import redis_cluster
from tests.support.redis_sentinel import SERVICE, redis_sentinel


class Backend(NamedTuple):
    """A running store."""

    uri: str
    #: opens a plain client of redis-py
    client: Callable[[], Any]
    #: returns a URI that names hosts, where *uri* may name a socket
    over_tcp: Callable[[], str]


@contextlib.contextmanager
def _single(program: str) -> Iterator[Backend]:
    with servers.redis_server(program) as server:
        yield Backend(server.uri, server.client, lambda: f"redis://127.0.0.1:{server.open_port()}")


@contextlib.contextmanager
def _sentinel() -> Iterator[Backend]:
    with redis_sentinel(sentinels=1) as watched:
        hosts = [("127.0.0.1", each.port) for each in watched.sentinels]

        def client() -> redis.Redis:
            found: redis.Redis = redis.sentinel.Sentinel(hosts).master_for(SERVICE)
            return found

        yield Backend(watched.uri, client, lambda: watched.uri)


@contextlib.contextmanager
def _cluster() -> Iterator[Backend]:
    with redis_cluster() as cluster:
        port = cluster.primaries[0].port
        yield Backend(
            cluster.uri, lambda: redis.RedisCluster("127.0.0.1", port), lambda: cluster.uri
        )


#: starts a store, and stops it
NewStore = Callable[[], contextlib.AbstractContextManager[Backend]]
#: by name; these are also the values of pytest's option --store
BACKENDS: dict[str, NewStore] = {
    "redis": partial(_single, servers.REDIS),
    "valkey": partial(_single, servers.VALKEY),
    "sentinel": _sentinel,
    "cluster": _cluster,
}
BACKENDS |= {
    name: partial(_single, program)
    for name, program in (("redis-6.2", servers.REDIS_6_2), ("redis-8", servers.REDIS_8))
    if servers.has_wheel(program)
}


def subscribers(store: Backend | servers.RedisServer, channel: bytes) -> int:
    """Returns how many connections listen to a channel to which scripts publish."""
    with store.client() as client:
        if isinstance(client, redis.RedisCluster):
            found = client.pubsub_shardnumsub(channel, target_nodes=redis.RedisCluster.PRIMARIES)
        else:
            found = client.pubsub_numsub(channel)
    ((_, count),) = found
    return int(count)
