# SPDX-License-Identifier: Apache-2.0
"""The audit log: what administrators do is in it, and what an operator asks for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pycadf import cadftype

from tests.auth.key_clients import OPTIONS, key_operator
from tests.support import openid, servers
from tests.support.backends import Backend
from tests.support.openid import OpenIdProvider
from tests.support.raw_http import CLIENT
from tests.support.tiers import in_gate
from tests.support.ways import WAYS
from tests.websocket.peers import api_peer

_GLOBAL_ID = "req-3381af92-2b9e-41e3-b191-71861300734c"


class AuditedService:
    """A service in admin mode, and the events that it has recorded."""

    def __init__(self, url: str, log: Path) -> None:
        self._url = url
        self._log = log

    def ask(self, method: str, path: str, **headers: str) -> httpx.Response:
        known = {"Client-ID": CLIENT, "X-Project-ID": "p"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return httpx.request(method, f"{self._url}{path}", headers=known, timeout=30)

    def events(self, path: str) -> list[dict[str, Any]]:
        """Returns the events about a path."""
        found = map(json.loads, self._log.read_text().splitlines())
        return [event for event in found if path in (event.get("path"), event.get("requestPath"))]


@pytest.fixture(scope="module", params=in_gate(["json", "cadf"]))
def audited(
    request: pytest.FixtureRequest, redis_server: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AuditedService]:
    log = tmp_path_factory.mktemp("audit") / "audit.log"
    options = {"audit": {"path": log, "format": request.param, "actions": "queues:*"}}
    with servers.service(redis_server.uri, "--admin", options=options) as running:
        yield AuditedService(running.url, log)


def test_calls_of_administrators_are_recorded_with_their_outcome(audited: AuditedService) -> None:
    for name, status in (("missing", 404), ("missing", 404)):
        assert audited.ask("GET", f"/v2/pools/{name}").status_code == status
    assert audited.ask("DELETE", "/v2/pools/gone").status_code == 204
    assert [each["outcome"] for each in audited.events("/v2/pools/missing")] == ["failure"] * 2
    assert [each["outcome"] for each in audited.events("/v2/pools/gone")] == ["success"]


@pytest.mark.parametrize("way", in_gate(WAYS))
def test_actions_of_the_option_are_recorded_and_no_others(
    audited: AuditedService, project: str, way: str
) -> None:
    queue = f"/v2/queues/{project}"
    assert audited.ask("PUT", queue, **WAYS[way]).status_code == 201
    assert audited.ask("GET", f"{queue}/messages", **WAYS[way]).status_code == 200
    assert len(audited.events(queue)) == 1
    assert audited.events(f"{queue}/messages") == []


@pytest.mark.parametrize("way", in_gate(WAYS))
def test_refused_request_is_recorded_too(audited: AuditedService, project: str, way: str) -> None:
    queue = f"/v2/queues/{project}"
    assert audited.ask("PUT", queue, Client_ID="no UUID", **WAYS[way]).status_code == 400
    assert [each["outcome"] for each in audited.events(queue)] == ["failure"]


@pytest.mark.parametrize("way", in_gate(WAYS))
@pytest.mark.parametrize("audited", ["json"], indirect=True)
def test_event_says_who_did_what_to_which_resource(
    audited: AuditedService, project: str, way: str
) -> None:
    path = f"/v2/queues/{project}"
    answer = audited.ask("PUT", path, X_OpenStack_Request_ID=_GLOBAL_ID, **WAYS[way])
    [event] = audited.events(path)
    assert event.pop("time").endswith("+00:00")
    assert event == {
        "request_id": answer.headers["X-OpenStack-Request-ID"],
        "global_request_id": _GLOBAL_ID,
        "strategy": "none",
        "user": "",
        "credential": "",
        "project": "p",
        "roles": ["admin", "member", "reader"],
        "action": "queues:create",
        "method": "PUT",
        "path": path,
        "target_project": "p",
        "status": 201,
        "outcome": "success",
    }


@pytest.mark.parametrize("audited", ["json"], indirect=True)
def test_id_that_is_none_of_a_service_is_not_recorded(
    audited: AuditedService, project: str
) -> None:
    path = f"/v2/queues/{project}"
    audited.ask("PUT", path, X_OpenStack_Request_ID='req-"},{"x":"')
    assert [event["global_request_id"] for event in audited.events(path)] == [""]


@pytest.mark.parametrize("audited", ["cadf"], indirect=True)
def test_event_of_cadf_has_what_its_specification_wants(
    audited: AuditedService, project: str
) -> None:
    path = f"/v2/queues/{project}"
    audited.ask("PUT", path, X_OpenStack_Request_ID=_GLOBAL_ID)
    [event] = audited.events(path)
    assert {"strategy?value=none", f"global_request_id?value={_GLOBAL_ID}"} <= set(event["tags"])
    assert event["typeURI"] == "http://schemas.dmtf.org/cloud/audit/1.0/event"
    assert event["eventType"] in cadftype.VALID_EVENTTYPES
    assert event["action"] == "create/queues/create"
    assert event["target"]["id"] == path
    assert event["reason"] == {"reasonType": "HTTP", "reasonCode": "201"}


def test_file_that_was_moved_away_is_made_again(
    redis_server: Backend, tmp_path: Path, project: str
) -> None:
    log = tmp_path / "audit.log"
    with servers.service(
        redis_server.uri, options={"audit": {"path": log, "actions": "*"}}
    ) as running:
        audited = AuditedService(running.url, log)
        audited.ask("PUT", f"/v2/queues/{project}-1")
        log.rename(tmp_path / "audit.log.1")
        audited.ask("PUT", f"/v2/queues/{project}-2")
        assert audited.events(f"/v2/queues/{project}-1") == []
        assert len(audited.events(f"/v2/queues/{project}-2")) == 1


def test_file_that_cannot_be_opened_keeps_the_service_from_starting(
    redis_server: Backend, tmp_path: Path
) -> None:
    options = {"audit": {"path": tmp_path / "missing" / "audit.log"}}
    with (
        pytest.raises(RuntimeError, match=r"\[audit\] path: .*No such file"),
        servers.service(redis_server.uri, options=options),
    ):
        pass


class AuditedRoles:
    """A service that accepts tokens, and the events that it has recorded."""

    def __init__(
        self, running: servers.RunningService, log: Path, provider: OpenIdProvider
    ) -> None:
        self.running = running
        self.log = log
        self.provider = provider

    def authorization(self, role: str, project: str) -> str:
        return f"Bearer {self.provider.token(roles=[role], project=project)}"

    def actions(self, project: str) -> list[tuple[str, str, str]]:
        """Returns rule, path and outcome of what was done in a project, in its order."""
        events = map(json.loads, self.log.read_text().splitlines())
        return [
            (event["action"], event["path"], event["outcome"])
            for event in events
            if event["target_project"] == project
        ]


@pytest.fixture(scope="module")
def roles(
    redis_server: Backend, provider: OpenIdProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AuditedRoles]:
    log = tmp_path_factory.mktemp("audit") / "audit.log"
    options = openid.options(provider, roles="reader=reader, member=member, admin=admin")
    options |= {"audit": {"path": log, "actions": "queues:delete"}}
    with servers.service(redis_server.uri, options=options) as running:
        yield AuditedRoles(running, log, provider)


@pytest.mark.parametrize("way", in_gate(WAYS))
def test_administrator_in_another_project_is_recorded_whatever_the_action(
    roles: AuditedRoles, project: str, way: str
) -> None:
    queue = f"/v2/queues/{project}"
    for home, role in ((project, "member"), ("operations", "admin"), ("operations", "admin")):
        headers = WAYS[way] | {"Authorization": roles.authorization(role, home)}
        headers |= {"X-Project-ID": project, "Client-ID": CLIENT}
        answer = httpx.get(f"{roles.running.url}{queue}", headers=headers, timeout=30)
        assert answer.status_code == 200
    assert roles.actions(project) == [("queues:get", queue, "success")] * 2


def test_administrator_who_calls_the_server_api_for_another_project_is_recorded(
    roles: AuditedRoles, project: str
) -> None:
    headers = {"Authorization": roles.authorization("admin", "operations"), "X-Project-ID": project}
    publish = {"channel": "news", "data": 1}
    for path, document in (("publish", publish), ("batch", {"commands": [{"publish": publish}]})):
        url = f"{roles.running.url}/api/{path}"
        answer = httpx.post(url, json=document, headers=headers, timeout=30)
        assert answer.status_code == 200
    published = ("channels:publish", "/api/publish", "success")
    batch = ("channels:batch", "/api/batch", "success")
    assert roles.actions(project) == [published, batch, published]


def test_event_about_a_quota_has_the_project_of_the_quota(
    roles: AuditedRoles, project: str
) -> None:
    authorization, path = roles.authorization("admin", "operations"), f"/v2/quotas/{project}"
    headers = {"Authorization": authorization, "Client-ID": CLIENT}
    for method, status in (("PUT", 200), ("GET", 200)):
        url = f"{roles.running.url}{path}"
        answer = httpx.request(method, url, json={}, headers=headers, timeout=30)
        assert answer.status_code == status
    assert roles.actions(project) == [
        ("quotas:update", path, "success"),
        ("quotas:get", path, "success"),
    ]


@pytest.mark.parametrize("path", ["/api", "/api/batch"])
def test_calls_in_a_document_are_recorded_each(
    roles: AuditedRoles, project: str, path: str
) -> None:
    call = {"method": "disconnect", "params": {"user": "ann"}}
    document = {"commands": [{"info": {}}, {"disconnect": {"user": "ann"}}]}
    headers = {"Authorization": roles.authorization("member", project)}
    answer = httpx.post(
        f"{roles.running.url}{path}",
        json=call if path == "/api" else document,
        headers=headers,
        timeout=30,
    )
    assert answer.status_code == (403 if path == "/api" else 200)
    outer = (
        ("channels:call", path, "denied") if path == "/api" else ("channels:batch", path, "success")
    )
    inner = ("channels:disconnect", "/api/disconnect", "denied")
    assert roles.actions(project) == [outer, inner]


def test_request_in_a_frame_is_recorded_as_one_of_http(roles: AuditedRoles, project: str) -> None:
    reader, member = (roles.authorization(role, project) for role in ("reader", "member"))
    with api_peer(roles.running, project, binary=False) as peer:
        for authorization, status in ((reader, 403), (member, 204)):
            assert peer.ask("authenticate", {"Authorization": authorization}).status == 200
            assert peer.ask("queue_delete", queue_name="q").status == status
    path = "/v2/queues/q"
    assert roles.actions(project) == [
        ("queues:delete", path, "denied"),
        ("queues:delete", path, "success"),
    ]


def test_event_names_the_access_key(redis_server: Backend, tmp_path: Path) -> None:
    log, project = tmp_path / "audit.log", f"project-{tmp_path.name}"
    options = OPTIONS | {"audit": {"path": log, "actions": "queues:get_all"}}
    with (
        servers.service(redis_server.uri, options=options) as running,
        key_operator(redis_server.uri) as operator,
    ):
        key = operator.create(project=project)
        headers = key.bearer | {"Client-ID": CLIENT}
        answer = httpx.get(f"{running.url}/v2/queues", headers=headers, timeout=30)
        assert answer.status_code == 200
    [event] = map(json.loads, log.read_text().splitlines())
    assert (event["user"], event["credential"]) == ("a program", key.id)


@pytest.mark.parametrize("way", in_gate(WAYS))
def test_without_a_file_standard_error_has_changes_and_refusals_of_administrators(
    redis_server: Backend, project: str, way: str
) -> None:
    queue, quota = f"/v2/queues/{project}", f"/v2/quotas/{project}"
    posted = {"messages": [{"body": 1}]}
    with (
        servers.service(redis_server.uri, options=OPTIONS) as running,
        key_operator(redis_server.uri) as operator,
        httpx.Client(base_url=running.url, timeout=30) as client,
    ):
        administrator = operator.create("--role", "admin", project="operations")
        member = operator.create(project=project)
        foreign = WAYS[way] | {"Client-ID": CLIENT, "X-Project-ID": project}
        for key, method, path, status, document in (
            (administrator, "GET", "/v2/health", 200, None),
            (administrator, "GET", "/v2/rebalance", 200, None),
            (administrator, "PUT", queue, 201, {}),
            (administrator, "POST", f"{queue}/messages", 201, posted),
            (administrator, "GET", f"{queue}/messages", 200, None),
            (administrator, "POST", f"{queue}/claims", 201, {}),
            (administrator, "PUT", quota, 200, {}),
            (administrator, "GET", quota, 200, None),
            (administrator, "DELETE", queue, 204, None),
            (member, "GET", "/v2/pools", 403, None),
            (member, "POST", f"{queue}/messages", 201, posted),
        ):
            headers = foreign | key.bearer
            assert (
                client.request(method, path, json=document, headers=headers).status_code == status
            )
        lines = running.log.read_text().splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    assert [(event["action"], event["outcome"]) for event in events] == [
        ("queues:create", "success"),
        ("quotas:update", "success"),
        ("queues:delete", "success"),
        ("pools:get_all", "denied"),
    ]


@pytest.mark.parametrize("way", in_gate(WAYS))
def test_event_that_cannot_be_written_is_in_the_log_of_the_service(
    redis_server: Backend, tmp_path: Path, project: str, way: str
) -> None:
    folder = tmp_path / "audit"
    folder.mkdir()
    options = {"audit": {"path": folder / "audit.log", "actions": "*"}}
    with servers.service(redis_server.uri, options=options) as running:
        audited = AuditedService(running.url, folder / "audit.log")
        shutil.rmtree(folder)
        path = f"/v2/queues/{project}"
        assert audited.ask("PUT", path, **WAYS[way]).status_code == 201
        [line] = [each for each in running.log.read_text().splitlines() if path in each]
    assert "the audit log cannot be written: " in line
    assert '"action":"queues:create"' in line
