# SPDX-License-Identifier: Apache-2.0
"""A store with two pools, and all that Redis has of a queue in each."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from tests import servers
from zaqar_redis import clock
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.client import BlockingClient
from zaqar_redis.records import Draft, Pool, Taken
from zaqar_redis.spark.stores import Stores, Where
from zaqar_redis.storage.drivers.redis.claims import Claims
from zaqar_redis.storage.drivers.redis.control import Pools
from zaqar_redis.storage.drivers.redis.ledger import Ledger
from zaqar_redis.storage.drivers.redis.messages import Messages
from zaqar_redis.storage.drivers.redis.queues import Queues

_CHUNK = 1000
TTL = 3600


class House:
    """Queues of one project in a store and its pools "one" and "two"."""

    def __init__(self, home: str, pools: dict[str, str], project: str) -> None:
        self.uri = home
        self.project = project
        self.at = Where(home, home, project, 10.0)
        self.stores = Stores(self.at)
        of = Pools(self.client(home))
        for name, uri in pools.items():
            of.put(Pool(name=name, uri=uri, weight=100), canonical=uri).run()

    def close(self) -> None:
        self.stores.close()

    def client(self, uri: str) -> BlockingClient:
        return self.stores.client(uri)

    def pool(self, queue: str) -> str:
        return self.stores.place(queue).pool

    def other(self, queue: str) -> str:
        return "two" if self.pool(queue) == "one" else "one"

    def there(self, queue: str) -> BlockingClient:
        """The Redis that the catalogue names."""
        return self.client(self.stores.place(queue, make=True).uri)

    def create(self, queue: str, **metadata: Any) -> None:
        Queues(self.there(queue), clock.store).create(self.project, queue, metadata).run()

    def delete(self, queue: str) -> None:
        Queues(self.there(queue), clock.store).delete(self.project, queue).run()

    def post(self, queue: str, *bodies: Any, delay: int = -1) -> None:
        ledger = Ledger(self.there(queue), clock.store)
        for first in range(0, len(bodies), _CHUNK):
            chunk = [
                (TTL, delay, envelope.tail(Draft(json.dumps(body).encode()), b"0" * 16))
                for body in bodies[first : first + _CHUNK]
            ]
            ledger.append(self.project, queue, chunk, size=0, default_ttl=TTL, sealed=False).run()

    def claim(self, queue: str, limit: int) -> Taken:
        messages = Messages(self.there(queue), clock.store)
        claims = Claims(messages.client, clock.store, messages.bury)
        return claims.create(self.project, queue, ttl=600, grace=60, limit=limit).run()

    def fill(self, queue: str, number: int = 12_000) -> None:
        """Messages in every state, and some that are gone."""
        self.create(queue, colour="blue", _default_message_delay=900)
        self.post(queue, *range(number), delay=0)
        self.post(queue, "later", delay=600)
        taken = self.claim(queue, 20)
        self.remove(queue, taken.messages[3].id)

    def remove(self, queue: str, *ids: str) -> None:
        messages = Messages(self.there(queue), clock.store)
        messages.delete(self.project, queue, ids, claims=None, force=True).run()

    def content(self, queue: str, pool: str | None = None) -> dict[str, Any]:
        """All that a store has of the queue, its gate aside."""
        name = pool or self.pool(queue)
        return content(self.client(self.stores.uri_of(name)), self.project, queue)

    def bodies(self, queue: str) -> list[Any]:
        """By rank."""
        found = content(self.client(self.stores.place(queue).uri), self.project, queue)
        stored = found.get("bodies", {})
        return [json.loads(stored[rank][58:]) for rank in sorted(stored, key=int)]


def content(client: BlockingClient, project: str, queue: str) -> dict[str, Any]:
    """By kind of key: what is in it, but for when the sweeper will look: that is each store's."""
    found: dict[str, Any] = {}
    known = keys.of_queue(project, queue)
    for slot in set(keys.QueueKeys.__slots__) - {"due"}:
        key = getattr(known, slot)
        kind = client.command("TYPE", key)
        if kind in (b"zset", "zset"):
            found[slot] = _pairs(client.command("ZRANGE", key, 0, -1, "WITHSCORES"))
        elif kind in (b"hash", "hash"):
            found[slot] = _pairs(client.command("HGETALL", key))
            found[slot].pop(b"due", None)
    return found


def gate(client: BlockingClient, project: str, queue: str) -> str:
    shut = client.command("GET", keys.of_queue(project, queue).gate)
    return (shut or b"").decode()


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


@contextlib.contextmanager
def running_servers() -> Iterator[tuple[str, dict[str, str]]]:
    """The URI of a store, and those of two others, by name."""
    with (
        servers.redis_server() as home,
        servers.redis_server() as one,
        servers.redis_server(servers.VALKEY) as two,
    ):
        yield home.uri, {"one": one.uri, "two": two.uri}
