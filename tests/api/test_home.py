# SPDX-License-Identifier: Apache-2.0
"""Version discovery, the home document, ping and health."""

from __future__ import annotations

import httpx
import pytest

from tests import servers
from tests.api.client import Api
from zaqar_redis.keyspace import keys


def test_versions_are_open_to_all(http: httpx.Client, service: servers.Service) -> None:
    answer = http.get(f"{service.url}/")
    assert answer.status_code == 300
    assert answer.headers["Content-Type"] == "application/json"
    (version,) = answer.json()["versions"]
    assert version == {
        "id": "2",
        "status": "CURRENT",
        "updated": "2014-9-24T04:06:47Z",
        "media-types": [
            {
                "base": "application/json",
                "type": "application/vnd.openstack.messaging-v2+json",
            }
        ],
        "links": [{"href": "/v2/", "rel": "self"}],
    }


@pytest.mark.parametrize("path", ["/v1/queues", "/v1.1/queues", "/v2", "/v2/ping/", "/v2/nothing"])
def test_unknown_paths_are_not_found_without_asking_for_headers(
    http: httpx.Client, service: servers.Service, path: str
) -> None:
    answer = http.get(service.url + path)
    assert answer.status_code == 404
    assert answer.json() == {"title": "404 Not Found"}


HOME = {
    "queues",
    "queue",
    "queue_stats",
    "queue_share",
    "queue_purge",
    "messages",
    "post_messages",
    "messages_delete",
    "message_get",
    "message_delete",
    "claim",
    "post_claim",
    "patch_claim",
    "delete_claim",
    "ping",
}


def test_home_document(api: Api) -> None:
    answer = api.get("/")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json-home"
    assert answer.headers["Cache-Control"] == "max-age=86400"
    resources = answer.json()["resources"]
    assert {f"rel/{name}" for name in HOME} <= resources.keys()
    for resource in resources.values():
        assert resource["hints"]["allow"]
        assert "application/json" in resource["hints"]["formats"]
        assert resource.get("href", resource.get("href-template", "")).startswith("/v2/")
    queues = resources["rel/queues"]
    assert queues["href-template"].partition("{")[0] == "/v2/queues"
    assert set(queues["href-vars"]) == {"marker", "limit", "detailed", "name", "with_count"}
    assert resources["rel/post_messages"]["hints"]["accept-post"]
    assert "rel/health" not in resources


def test_home_document_needs_a_project(api: Api) -> None:
    assert api.request("GET", "/", headers={"X-Project-ID": ""}).status_code == 400


def test_home_document_of_an_administrator_names_health(rich: Api) -> None:
    assert "rel/health" in rich.get("/").json()["resources"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_ping(api: Api, method: str) -> None:
    answer = api.request(method, "/ping")
    assert (answer.status_code, answer.content) == (204, b"")


def test_health_is_for_administrators_only(api: Api) -> None:
    assert api.get("/health").status_code == 404


def test_health_tries_every_operation_and_leaves_nothing(
    rich: Api, redis_server: servers.RedisServer
) -> None:
    answer = rich.get("/health")
    assert answer.status_code == 200
    report = answer.json()
    assert report["storage_reachable"] is True
    assert set(report["operation_status"]) == {
        "create_queue",
        "post_messages",
        "claim_messages",
        "list_messages",
        "delete_messages",
        "delete_claim",
        "bulk_delete_messages",
        "delete_queue",
    }
    for outcome in report["operation_status"].values():
        assert outcome["succeeded"] is True
        assert outcome["ref"] is None
        assert 0 <= outcome["seconds"] < 30
    with redis_server.client() as client:
        found = list(client.scan_iter(b"zr:*health-*"))
    # The catalogue remembers for a minute where it was.
    assert [key for key in found if not key.startswith(keys.CONTROL.prefix)] == []


def test_health_and_ping_say_that_the_store_is_away(http: httpx.Client, project: str) -> None:
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, options={"DEFAULT": {"admin_mode": True}}) as service,
    ):
        api = Api(http, service.url, project)
        assert api.get("/ping").status_code == 204
        redis.stop()
        answer = api.get("/ping")
        assert (answer.status_code, answer.content) == (503, b"")
        assert api.request("HEAD", "/ping").status_code == 204
        health = api.get("/health").json()
        assert health["catalog_reachable"] is False
        assert health["default"]["storage_reachable"] is False
        refusal = api.get("/queues")
        assert refusal.status_code == 503
        assert int(refusal.headers["Retry-After"]) >= 1
