# SPDX-License-Identifier: Apache-2.0
"""python-zaqarclient works with stock Zaqar over our stores, this release and the last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from zaqarclient.queues import client as zaqarclient
from zaqarclient.transport import errors

from tests.support.backends import NewStore
from tests.upstream import stock
from tests.upstream.test_upstream import RELEASES
from zaqar_redis.keyspace import uris


def client(url: str, project: str = "p") -> Any:
    auth = {"backend": "noauth", "options": {"os_project_id": project}}
    return zaqarclient.Client(url, 2, conf={"auth_opts": auth})


@pytest.fixture(scope="module", params=RELEASES)
def url(request: pytest.FixtureRequest, new_store: NewStore) -> Iterator[str]:
    with (
        new_store() as store,
        stock.zaqar(store.uri, "--workers", "2", python=request.param) as running,
    ):
        yield running


@pytest.fixture
def zaqar(url: str, project: str) -> Any:
    return client(url, project)


def test_queues(zaqar: Any) -> None:
    queue = zaqar.queue("orders", force_create=True)
    queue.metadata({"colour": "red", "_default_message_ttl": 300})
    assert zaqar.queue("orders").metadata(force_reload=True)["colour"] == "red"
    zaqar.queue("other", force_create=True)
    listed, _ = zaqar.queues()
    assert [each.name for each in listed] == ["orders", "other"]
    zaqar.queue("other").delete()
    listed, _ = zaqar.queues()
    assert [each.name for each in listed] == ["orders"]


def test_messages(zaqar: Any, url: str, project: str) -> None:
    other = client(url, project)
    posted = other.queue("q").post([{"body": {"n": n}, "ttl": 300} for n in range(25)])
    assert len(posted["resources"]) == 25
    found = list(zaqar.queue("q").messages(limit=10))
    assert [message.body["n"] for message in found] == list(range(10))
    message = zaqar.queue("q").message(found[3].id)
    assert (message.body, message.ttl) == ({"n": 3}, 300)
    message.delete()
    with pytest.raises(errors.ResourceNotFound):
        zaqar.queue("q").message(found[3].id)
    assert [each.body["n"] for each in zaqar.queue("q").pop(count=2)] == [0, 1]
    zaqar.queue("q").delete_messages(found[4].id, found[5].id)
    assert zaqar.queue("q").stats["messages"]["total"] == 20
    zaqar.queue("q").purge(["messages"])
    assert zaqar.queue("q").stats["messages"]["total"] == 0


def test_claims(zaqar: Any) -> None:
    queue = zaqar.queue("q")
    queue.post([{"body": n, "ttl": 300} for n in range(5)])
    claim = queue.claim(ttl=60, grace=60, limit=3)
    first, *rest = claim
    assert [first.body, *(message.body for message in rest)] == [0, 1, 2]
    assert queue.stats["messages"]["claimed"] == 3
    first.delete()
    claim.update(ttl=120)
    assert queue.claim(id=claim.id).ttl == 120
    claim.delete()
    assert queue.stats["messages"] | {"oldest": 0, "newest": 0} == {
        "claimed": 0,
        "free": 4,
        "total": 4,
        "oldest": 0,
        "newest": 0,
    }
    assert [message.body for message in queue.claim(ttl=60, grace=60)] == [1, 2, 3, 4]


def test_subscriptions(zaqar: Any) -> None:
    zaqar.queue("q", force_create=True)
    made = zaqar.subscription(
        "q", subscriber="http://127.0.0.1:1/hook", ttl=600, options={"a": "b"}
    )
    made.update({"ttl": 900})
    (listed,) = zaqar.subscriptions("q")
    assert (listed.subscriber, listed.ttl) == ("http://127.0.0.1:1/hook", 900)
    assert listed.options == {"a": "b"}
    made.delete()
    assert list(zaqar.subscriptions("q")) == []


def test_health_and_ping(zaqar: Any) -> None:
    assert zaqar.ping() is True
    assert zaqar.health()["storage_reachable"] is True


def test_pools_and_flavors(project: str, new_store: NewStore) -> None:
    with (
        new_store() as default_pool,
        new_store() as one,
        stock.zaqar(default_pool.uri, "--workers", "2", pooling=True) as url,
    ):
        zaqar = client(url, project)
        pool = zaqar.pool("one", uri=uris.to_zaqar_uri(one.uri), weight=10, flavor="fast")
        zaqar.flavor("fast", pool_list=["one"])
        assert [flavor.name for flavor in zaqar.flavors()] == ["fast"]
        queue = zaqar.queue("q", force_create=True)
        queue.metadata({"_flavor": "fast"})
        queue.post({"body": 1, "ttl": 300})
        assert [message.body for message in queue.messages(echo=True)] == [1]
        with pytest.raises(errors.ForbiddenError):
            pool.delete()
        assert [(each.name, each.weight) for each in zaqar.pools()] == [("one", 10)]
