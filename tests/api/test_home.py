# SPDX-License-Identifier: Apache-2.0
"""Version discovery, the home document, ping and health."""

from __future__ import annotations

import socket
import time

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.support import servers
from tests.support.backends import Backend
from zaqar_redis.keyspace import control_keys


def test_version_list_needs_no_headers(http: httpx.Client, service: servers.RunningService) -> None:
    answer = http.get(f"{service.url}/")
    assert answer.status_code == 300
    assert answer.headers["Content-Type"] == "application/json"
    (version,) = answer.json()["versions"]
    assert version == {
        "id": "2",
        "status": "CURRENT",
        "updated": "2014-9-24T04:06:47Z",
        "media-types": [
            {"base": "application/json", "type": "application/vnd.openstack.messaging-v2+json"}
        ],
        "links": [{"href": "/v2/", "rel": "self"}],
    }


def test_version_has_an_address_without_a_slash(
    http: httpx.Client, service: servers.RunningService
) -> None:
    (version,) = http.get(f"{service.url}/").json()["versions"]
    answer = http.get(f"{service.url}/v2")
    assert (answer.status_code, answer.json()) == (200, {"version": version})


@pytest.mark.parametrize(
    "path", ["/v1/queues", "/v1.1/queues", "/v1.1", "/v2/ping/", "/v2/nothing"]
)
def test_unknown_paths_answer_404_before_headers_are_checked(
    http: httpx.Client, service: servers.RunningService, path: str
) -> None:
    answer = http.get(service.url + path)
    assert answer.status_code == 404
    assert answer.json()["title"] == "404 Not Found"
    refused(answer, 404, f"There is nothing at {path}: ")


@pytest.mark.parametrize("path", ["/v2/pools", "/v2/pools/p", "/v2/health", "/v2/quotas"])
def test_path_of_operators_without_admin_mode_says_what_it_needs(
    http: httpx.Client, service: servers.RunningService, path: str
) -> None:
    refused(http.get(service.url + path), 404, path, "operators", "--admin")


HOME = {
    *("queues", "queue", "queue_stats", "queue_share", "queue_purge", "messages", "post_messages"),
    *("messages_delete", "message_get", "message_delete", "claim", "post_claim", "patch_claim"),
    *("delete_claim", "ping"),
}


def test_home_document(api: ZaqarTestClient) -> None:
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
    assert set(queues["href-vars"]) == {
        "marker",
        "limit",
        "detailed",
        "name",
        "with_count",
        "with_stats",
    }
    assert resources["rel/post_messages"]["hints"]["accept-post"]
    assert "rel/health" not in resources


def test_home_document_needs_a_project(api: ZaqarTestClient) -> None:
    assert api.request("GET", "/", headers={"X-Project-ID": ""}).status_code == 400


def test_home_document_of_an_administrator_names_health(rich: ZaqarTestClient) -> None:
    assert "rel/health" in rich.get("/").json()["resources"]


def given(api: ZaqarTestClient) -> dict[str, str]:
    return {"Client-ID": api.client, "X-Project-ID": api.project}


PROBES = {"/v2/ping": (204, b""), "/healthcheck": (200, b"OK"), "/health": (200, b"{}")}


@pytest.mark.parametrize("path", PROBES)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_probes_need_no_headers(service: servers.RunningService, method: str, path: str) -> None:
    status, content = PROBES[path]
    with socket.create_connection(("127.0.0.1", service.port), 60) as connection:
        connection.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode()
        )
        head, _, body = b"".join(iter(lambda: connection.recv(4096), b"")).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert body == (content if method == "GET" else b"")


def test_probes_are_the_same_with_headers(
    api: ZaqarTestClient, service: servers.RunningService
) -> None:
    for path, (status, content) in PROBES.items():
        answer = api.http.get(service.url + path, headers=given(api))
        assert (answer.status_code, answer.content) == (status, content)


def test_health_is_for_administrators_only(api: ZaqarTestClient) -> None:
    assert api.get("/health").status_code == 404


def test_health_runs_every_operation_and_leaves_no_keys(
    rich: ZaqarTestClient, redis_server: Backend
) -> None:
    began = time.monotonic()
    answer = rich.get("/health")
    passed = time.monotonic() - began
    assert answer.status_code == 200
    report = answer.json()
    assert report["storage_reachable"] is True
    assert set(report["operation_status"]) == {
        *("create_queue", "post_messages", "claim_messages", "list_messages", "delete_messages"),
        *("delete_claim", "bulk_delete_messages", "delete_queue"),
    }
    for outcome in report["operation_status"].values():
        assert outcome["succeeded"] is True
        assert outcome["ref"] is None
        assert 0 <= outcome["seconds"] <= passed
    with redis_server.client() as client:
        found = list(client.scan_iter(b"zr:*health-*"))
    # The catalogue keeps the entry of a deleted queue for a minute.
    assert [key for key in found if not key.startswith(control_keys.CONTROL.prefix)] == []


def test_every_probe_names_the_unreachable_store(http: httpx.Client, project: str) -> None:
    with servers.redis_server() as redis:
        with redis.client() as client:
            client.config_set("requirepass", "se:cr@et")
        uri = f"unix://:se%3Acr%40et@{redis.socket}"
        with servers.service(uri, options={"DEFAULT": {"admin_mode": True}}) as service:
            api = ZaqarTestClient(http, service.url, project)
            assert api.get("/health").status_code == 200
            redis.stop()
            servers.wait_for(lambda: api.get("/queues").status_code == 503, "the loss")
            for path in ("/v2/ping", "/healthcheck", "/health", "/v2/queues"):
                answer = http.get(service.url + path, headers=given(api))
                refused(answer, 503, f"unix://:***@{redis.socket}")
                assert int(answer.headers["Retry-After"]) >= 1
            assert api.request("HEAD", "/ping").status_code == 204
            assert http.get(service.url).status_code == 300
            health = api.get("/health")
            assert (health.status_code, health.headers["Retry-After"]) == (503, "1")
            assert health.json()["catalog_reachable"] is False
            assert health.json()["default"]["storage_reachable"] is False
            log = service.log.read_text()
            assert f"no connection to unix://:***@{redis.socket}" in log
            assert "se:cr" not in log
            assert "se%3Acr" not in log


def test_health_names_the_unreachable_store_of_channels(http: httpx.Client) -> None:
    with servers.redis_server() as of_queues, servers.redis_server() as of_channels:
        options = {"channels": {"enabled": True, "uris": of_channels.uri}}
        with servers.service(of_queues.uri, options=options) as service:
            assert http.get(f"{service.url}/health").json() == {}
            of_channels.stop()
            servers.wait_for(
                lambda: http.get(f"{service.url}/health").status_code == 503, "the loss"
            )
            refused(http.get(f"{service.url}/health"), 503, of_channels.uri)
            # Queues are still served.
            assert http.get(f"{service.url}/v2/ping").status_code == 204
            assert http.get(f"{service.url}/healthcheck").status_code == 200
