# SPDX-License-Identifier: Apache-2.0
"""Our message store with stock's SQL management store: dead letters reach their queue."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from zaqar.storage.sqlalchemy import tables

from tests.support import servers
from tests.upstream import crowd, stock
from zaqar_redis import clock

_ABOUT = {"_max_claim_count": 1, "_dead_letter_queue": "dead"}


class StockZaqarOnSqlite:
    """Stock Zaqar with pooling, its queues and pools in SQLite."""

    def __init__(self, config: str, stores: list[servers.RedisServer]) -> None:
        self.bootstrap = crowd.bootstrap(config)
        tables.metadata.create_all(self.bootstrap.control.engine)
        self.stores = stores
        #: time of the stores' clock, in milliseconds
        self.now = int(time.time() * 1000)

    def make(self, queue: str, store: int, **about: Any) -> None:
        """Creates the queue in the pool of one of the stores."""
        pools = self.bootstrap.control.pools_controller
        for number, server in enumerate(self.stores):
            uri = f"zaqar-redis+{server.uri}"
            pools.create(f"pool{number}", 10 if number == store else 0, uri)
        self.bootstrap.storage.queue_controller.create(queue, about, project="p")

    def post(self, queue: str, *bodies: str) -> None:
        messages = [{"body": body, "ttl": 300} for body in bodies]
        self.bootstrap.storage.message_controller.post(queue, messages, None, project="p")

    def claim(self, queue: str, limit: int = 1) -> tuple[str | None, list[str]]:
        claim, messages = self.bootstrap.storage.claim_controller.create(
            queue, {"ttl": 300, "grace": 60}, project="p", limit=limit
        )
        return claim, [message["body"] for message in messages]

    def bodies(self, queue: str) -> list[str]:
        page = self.bootstrap.storage.message_controller.list(queue, project="p", echo=True)
        return [message["body"] for message in next(page)]

    def post_exhausted(self) -> None:
        """Posts a message that its next claim dead-letters."""
        self.post("jobs", "poison")
        claim, _ = self.claim("jobs")
        self.bootstrap.storage.claim_controller.delete("jobs", claim, project="p")


@pytest.fixture
def zaqar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StockZaqarOnSqlite]:
    management = f"sqlite:///{tmp_path}/zaqar.db"
    config = servers.config_file(
        tmp_path,
        stock.configuration("unix:///unused", pooling=True)
        .replace("management_store = zaqar-redis", "management_store = sqlalchemy")
        .replace("management_store:zaqar-redis]", "management_store:sqlalchemy]")
        .replace("]\nuri = unix:///unused\n[oslo", f"]\nuri = {management}\n[oslo"),
    )
    with servers.redis_server() as one, servers.redis_server() as two:
        stock_zaqar = StockZaqarOnSqlite(config, [one, two])
        monkeypatch.setattr(clock, "store", lambda: stock_zaqar.now)
        yield stock_zaqar
        stock_zaqar.bootstrap.storage.close()
        stock_zaqar.bootstrap.control.engine.dispose()


@pytest.mark.parametrize("make", ["before", "never"])
def test_a_dead_letter_goes_to_the_pool_of_its_queue(zaqar: StockZaqarOnSqlite, make: str) -> None:
    zaqar.make("jobs", 0, **_ABOUT)
    zaqar.post_exhausted()
    if make == "before":
        zaqar.make("dead", 1)
    else:
        zaqar.make("elsewhere", 1)  # from now on, new queues go to this pool
    assert zaqar.claim("jobs") == (None, [])
    assert zaqar.bodies("dead") == ["poison"]
    assert zaqar.claim("dead")[1] == ["poison"]
    with zaqar.stores[1].client() as client:
        assert client.exists("zr:{p/dead}")
    names = [queue["name"] for queue in next(zaqar.bootstrap.storage.queue_controller.list("p"))]
    assert {"dead", "jobs"} <= set(names)


def test_dead_letter_is_kept_until_the_store_of_its_queue_is_reachable(
    zaqar: StockZaqarOnSqlite,
) -> None:
    zaqar.make("dead", 1)
    zaqar.make("jobs", 0, **_ABOUT)
    zaqar.post_exhausted()
    zaqar.post("jobs", "good")
    zaqar.stores[1].signal(signal.SIGKILL)
    assert zaqar.claim("jobs")[1] == ["good"]
    zaqar.stores[1].start()
    assert zaqar.bodies("dead") == []
    zaqar.now += 61_000  # longer than a dead letter is held
    assert zaqar.claim("jobs") == (None, [])
    assert zaqar.bodies("dead") == ["poison"]
