# SPDX-License-Identifier: Apache-2.0
"""Pools managed by stock Zaqar: what it may not do to queues."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from zaqar.common import errors as zaqar_errors
from zaqar.storage import errors as storage_errors
from zaqar.storage import utils

from tests.support import servers
from tests.support.backends import NewStore
from tests.upstream import crowd, stock
from zaqar_redis.keyspace import uris
from zaqar_redis.storage import pools as pooled_storage


def pooled(folder: Path, uri: str) -> Any:
    """The bootstrap of stock Zaqar with pooling, with this default pool."""
    config = stock.configuration(uri, pooling=True)
    return crowd.bootstrap(servers.config_file(folder, config))


@pytest.fixture
def zaqar(tmp_path: Path, new_store: NewStore) -> Iterator[Any]:
    """The bootstrap of stock Zaqar with pooling, over a store of ours."""
    with new_store() as default_pool:
        bootstrapped = pooled(tmp_path, default_pool.uri)
        yield bootstrapped
        bootstrapped.storage.close()
        bootstrapped.control.close()


def bodies(zaqar: Any, queue: str) -> list[Any]:
    found = next(zaqar.storage.message_controller.list(queue, project="p", echo=True))
    return [message["body"] for message in found]


def test_default_pool_cannot_be_created_changed_or_deleted(zaqar: Any) -> None:
    pools = zaqar.control.pools_controller
    zaqar.storage.queue_controller.create("q", project="p")
    assert pools.get("default")["weight"] == 1
    assert list(next(pools.list())) == []
    with pytest.raises(storage_errors.PoolAlreadyExists, match="message store"):
        pools.create("default", 100, "zaqar-redis://127.0.0.1:1")
    with pytest.raises(storage_errors.PoolDoesNotExist):
        pools.update("default", weight=5)
    with pytest.raises(storage_errors.PoolInUseByFlavor):
        pools.delete("default")
    assert zaqar.control.catalogue_controller.get("p", "q")["pool"] == "default"


@pytest.mark.parametrize("uri", ["redis://h", "rediss://h", "unix:///h", "mongodb://h", "redis:/h"])
def test_pool_with_a_uri_of_another_driver_is_refused(zaqar: Any, uri: str) -> None:
    pools = zaqar.control.pools_controller
    with pytest.raises(storage_errors.PoolCapabilitiesMismatch, match="zaqar-redis://"):
        pools.create("one", 100, uri)
    pools.create("one", 100, "zaqar-redis://h")
    with pytest.raises(storage_errors.PoolCapabilitiesMismatch, match="zaqar-redis://"):
        pools.update("one", uri=uri)
    assert pools.get("one")["uri"] == "zaqar-redis://h"


def test_new_queues_go_to_the_default_pool_when_no_pool_has_weight(
    zaqar: Any, new_store: NewStore
) -> None:
    pools, where = zaqar.control.pools_controller, zaqar.control.catalogue_controller
    with new_store() as one:
        for queue, weight, pool in (("a", 0, "default"), ("b", 10, "one"), ("c", 0, "default")):
            pools.create("one", weight, uris.to_zaqar_uri(one.uri))
            zaqar.storage.queue_controller.create(queue, project="p")
            assert where.get("p", queue)["pool"] == pool


def test_a_queue_keeps_its_messages_when_its_flavor_changes(
    zaqar: Any, new_store: NewStore
) -> None:
    queues = zaqar.storage.queue_controller
    with new_store() as one:
        queues.create("q", project="p")
        message = {"body": 1, "ttl": 300}
        zaqar.storage.message_controller.post("q", [message], None, project="p")
        zaqar.control.pools_controller.create("one", 10, uris.to_zaqar_uri(one.uri), flavor="fast")
        zaqar.control.flavors_controller.create("fast", project="p")
        queues.set_metadata("q", {"_flavor": "fast"}, project="p")
        assert bodies(zaqar, "q") == [1]
        assert queues.get("q", project="p") == {"_flavor": "fast"}


def test_queue_that_has_moved_is_followed_to_its_pool(zaqar: Any, new_store: NewStore) -> None:
    """Stock Zaqar remembers pools of queues for a while."""
    with new_store() as one, new_store() as two:
        for name, redis in (("one", one), ("two", two)):
            weight = 100 if name == "one" else 0
            zaqar.control.pools_controller.create(name, weight, uris.to_zaqar_uri(redis.uri))
        zaqar.storage.queue_controller.create("q", project="p")
        message = {"body": 1, "ttl": 300}
        remembered = zaqar.storage._storage._pool_catalog.get_driver("one")
        remembered.message_controller.post("q", [message], None, project="p")
        asyncio.run(_move(zaqar.control.stores.management.uri, "one", "two"))
        assert remembered.message_controller.post("q", [message], None, project="p")
        claimed, messages = remembered.claim_controller.create(
            "q", {"ttl": 300, "grace": 60}, project="p"
        )
        assert [each["body"] for each in messages] == [1, 1]
        remembered.claim_controller.get("q", claimed, project="p")
        assert bodies(zaqar, "q") == []
        assert zaqar.control.catalogue_controller.get("p", "q")["pool"] == "two"


async def _move(uri: str, source: str, target: str) -> None:
    driver = pooled_storage.create(uri, uri, {})
    await driver.start()
    try:
        assert await driver.mover.move("p", "q", source, target) == 1
    finally:
        await driver.close()


def test_pool_with_queues_cannot_be_deleted_even_when_unreachable(tmp_path: Path) -> None:
    with servers.redis_server() as default_pool, servers.redis_server() as one:
        zaqar = pooled(tmp_path, default_pool.uri)
        pools = zaqar.control.pools_controller
        pools.create("one", 100, uris.to_zaqar_uri(one.uri))
        zaqar.storage.queue_controller.create("q", project="p")
        with pytest.raises(storage_errors.PoolInUseByFlavor) as refusal:
            pools.delete("one")
        assert "queues (of these: 1)" in refusal.value.flavor
        one.signal(signal.SIGKILL)
        with pytest.raises(storage_errors.PoolInUseByFlavor):
            pools.delete("one")
        assert pools.get("one")["name"] == "one"
        zaqar.storage.close()


def test_uri_path_that_is_no_database_number_is_refused(
    tmp_path: Path, new_store: NewStore
) -> None:
    with new_store() as default_pool:
        wrong = stock.configuration("zaqar-redis://127.0.0.1:1/folder")
        config = servers.config_file(tmp_path, wrong)
        with pytest.raises(zaqar_errors.InvalidDriver, match="database number"):
            _ = crowd.bootstrap(config).control  # it is created at first use
        zaqar = pooled(tmp_path, default_pool.uri)
        store = uris.to_zaqar_uri(default_pool.over_tcp())
        assert utils.can_connect(store, conf=zaqar.conf), "the check of a new pool"
        assert not utils.can_connect(f"{store}/folder", conf=zaqar.conf)
