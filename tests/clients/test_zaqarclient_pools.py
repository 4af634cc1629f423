# SPDX-License-Identifier: Apache-2.0
"""python-zaqarclient administers pools and flavors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from zaqarclient.queues import client as zaqarclient
from zaqarclient.transport import errors

from tests.support import servers
from tests.support.backends import Backend


@pytest.fixture
def admin(redis_server: Backend) -> Iterator[Any]:
    """A client of a service with two workers, on a store that no other test uses."""
    options: dict[str, dict[str, object]] = {"DEFAULT": {"admin_mode": True}}
    with (
        servers.redis_server() as default_pool,
        servers.service(default_pool.uri, workers=2, options=options) as service,
    ):
        conf = {"auth_opts": {"backend": "noauth", "options": {"os_project_id": "p"}}}
        yield zaqarclient.Client(service.url, conf=conf, version=2)


@pytest.fixture
def stores() -> Iterator[list[str]]:
    with servers.redis_server() as one, servers.redis_server() as two:
        yield [one.uri, two.uri]


def test_pools(admin: Any, stores: list[str]) -> None:
    made = [admin.pool(f"p{number}", uri=uri, weight=10) for number, uri in enumerate(stores)]
    assert [pool.name for pool in admin.pools()] == ["p0", "p1"]
    found = made[0].get()
    assert (found["name"], found["uri"], found["weight"]) == ("p0", stores[0], 10)
    made[0].update({"weight": 20})
    assert made[0].get()["weight"] == 20
    made[1].delete()
    assert [pool.name for pool in admin.pools()] == ["p0"]
    with pytest.raises(errors.ResourceNotFound):
        made[1].get()
    with pytest.raises(errors.ConflictError):
        admin.pool("again", uri=stores[0], weight=1)
    hasty = {"connect_timeout": 0.1}
    with pytest.raises(errors.MalformedRequest):
        admin.pool("nowhere", uri="redis://127.0.0.1:1", weight=1, options=hasty)


def test_flavors(admin: Any, stores: list[str]) -> None:
    for number, uri in enumerate(stores):
        admin.pool(f"p{number}", uri=uri, weight=10)
    fast = admin.flavor("fast", pool_list=["p0"])
    assert fast.get()["pool_list"] == ["p0"]
    fast.update({"pool_list": ["p0", "p1"]})
    assert fast.get()["pool_list"] == ["p0", "p1"]
    assert [flavor.name for flavor in admin.flavors()] == ["fast"]
    queue = admin.queue("orders", force_create=True)
    queue.metadata(new_meta={"_flavor": "fast"})
    queue.post([{"body": 1, "ttl": 60}])
    assert [message.body for message in queue.messages(echo=True)] == [1]
    admin.flavor("fast", pool_list=["p0"])
    with pytest.raises(errors.ForbiddenError):
        admin.pool("p0", auto_create=False).delete()
    fast.delete()
    assert list(admin.flavors()) == []


def test_health_and_home(admin: Any, stores: list[str]) -> None:
    assert admin.health()["storage_reachable"] is True
    admin.pool("p0", uri=stores[0], weight=10)
    assert admin.health()["catalog_reachable"] is True
    assert "rel/pools" in admin.homedoc()["resources"]
