# SPDX-License-Identifier: Apache-2.0
"""Heat's resources of Zaqar, created, changed and deleted by Heat's own code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from tests.keystone.conftest import TokenClient
from tests.support import servers
from tests.support.http_handlers import QuietHandler
from tests.support.keystone import PASSWORD, RunningKeystone
from tests.upstream.test_upstream import PREVIOUS

pytestmark = pytest.mark.nightly

_WORKFLOW = "5d3ea5d4-3e0d-4c1a-8a9e-0b6a3f0d2c11"


class WorkflowService(ThreadingHTTPServer):
    """As much of Mistral as Heat and a trigger ask: it has one workflow, and is told to run it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _WorkflowHandler)
        self.url = f"http://127.0.0.1:{self.server_port}/v2"
        #: paths, tokens and documents
        self.posted: list[tuple[str, str, Any]] = []


class _WorkflowHandler(QuietHandler):
    def do_GET(self) -> None:
        found = self.path.partition("?")[0] == f"/v2/workflows/{_WORKFLOW}"
        self._show(200 if found else 404, {"id": _WORKFLOW, "name": "orders", "input": ""})

    def do_POST(self) -> None:
        posted = self.path, self.headers["X-Auth-Token"], json.loads(self.body())
        cast(WorkflowService, self.server).posted.append(posted)
        self._show(201, {})

    def _show(self, status: int, document: Any) -> None:
        self.answer(status, json.dumps(document).encode(), Content_Type="application/json")


class HeatStack:
    """The process that has a stack."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def act(self, action: str, resources: dict[str, Any]) -> dict[str, Any]:
        """Creates, updates or deletes the stack; returns its signed URLs."""
        document = {"heat_template_version": "2021-04-16", "resources": resources}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([action, document]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "Heat has ended"
        state, why, signed = json.loads(line)
        assert state == f"{action.upper()}_COMPLETE", why
        return dict(signed)


@pytest.fixture(scope="module")
def mistral(keystone: RunningKeystone) -> Iterator[WorkflowService]:
    with servers.http_server(WorkflowService()) as found:
        keystone.add_endpoint(found.url, "workflowv2")
        yield found


@pytest.fixture
def heat(keystone: RunningKeystone, tmp_path: Path) -> Iterator[HeatStack]:
    credentials = {
        "auth_url": keystone.url,
        "username": "member",
        "password": PASSWORD,
        "tenant_id": keystone.projects["blue"],
        "user_id": keystone.users["member"],
        "user_domain_id": "default",
    }
    script = Path(__file__).with_name("heat_stack.py")
    with (tmp_path / "heat.log").open("w") as log:
        process = subprocess.Popen(
            [str(PREVIOUS), str(script), json.dumps(credentials)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        yield HeatStack(process)
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0, (tmp_path / "heat.log").read_text()


def _of_queue(kind: str, **properties: Any) -> dict[str, Any]:
    """Returns a resource of the queue that the template calls ``queue``."""
    name = "queue" if kind == "SignedQueueURL" else "queue_name"
    properties[name] = {"get_resource": "queue"}
    return {"type": f"OS::Zaqar::{kind}", "properties": properties}


def test_heat_creates_updates_and_deletes_all_its_resources_of_zaqar(
    keystone: RunningKeystone,
    hot: TokenClient,
    mistral: WorkflowService,
    heat: HeatStack,
    queue: str,
) -> None:
    token = keystone.token("member")

    def subscribed() -> list[dict[str, Any]]:
        answer = hot.request("GET", f"/queues/{queue}/subscriptions", token)
        return cast(list[dict[str, Any]], answer.json()["subscriptions"])

    # Given all of them, with their defaults
    plain = {"type": "OS::Zaqar::Queue", "properties": {"name": queue}}
    resources: dict[str, Any] = {
        "queue": plain,
        "unnamed": {"type": "OS::Zaqar::Queue"},
        "url": _of_queue("SignedQueueURL"),
        "hook": _of_queue("Subscription", subscriber="mailto:a@example.org"),
        "trigger": _of_queue("MistralTrigger", workflow_id=_WORKFLOW),
    }
    url = heat.act("create", resources)["url"]
    ends = {each["subscriber"]: each["ttl"] for each in subscribed()}
    trigger = f"trust+{mistral.url}/executions"
    assert ends == dict.fromkeys(("mailto:a@example.org", trigger), 220_367_260_800)
    # The URL reads the queue
    signed = {
        "URL-Signature": url["signature"],
        "URL-Expires": url["expires"],
        "URL-Paths": ",".join(url["paths"]),
        "URL-Methods": ",".join(url["methods"]),
        "X-Project-ID": url["project"],
    }
    read = hot.request("GET", f"/queues/{queue}/messages", headers=list(signed.items()))
    assert (read.status_code, url["methods"]) == (200, ["GET"])
    # A message runs the workflow, as the user who made the trigger
    assert hot.post(queue, token).status_code == 201
    servers.wait_for(lambda: mistral.posted != [], "the workflow to run")
    path, given, document = mistral.posted[0]
    assert path == "/v2/executions"
    assert keystone.token_document(given)["user"]["name"] == "member"
    assert document["workflow_id"] == _WORKFLOW
    assert document["params"]["env"]["notification"]["body"] == "posted"
    # When they change
    resources |= {
        "queue": plain | {"properties": {"name": queue, "metadata": {"colour": "blue"}}},
        "hook": _of_queue(
            "Subscription",
            subscriber="mailto:b@example.org",
            options={"from": "c@example.org"},
            ttl=90,
        ),
        "trigger": _of_queue("MistralTrigger", workflow_id=_WORKFLOW, input={"n": 1}, ttl=3600),
    }
    heat.act("update", resources)
    metadata = hot.request("GET", f"/queues/{queue}", token).json()
    assert metadata["colour"] == "blue"
    changed = {each["subscriber"]: each for each in subscribed()}
    assert {name: each["ttl"] for name, each in changed.items()} == {
        "mailto:b@example.org": 90,
        trigger: 3600,
    }
    assert changed["mailto:b@example.org"]["options"] == {"from": "c@example.org"}
    assert json.loads(changed[trigger]["options"]["post_data"])["input"] == {"n": 1}
    # Options that are taken out are null, which changes nothing, as with stock Zaqar
    del resources["hook"]["properties"]["options"]
    heat.act("update", resources)
    changed = {each["subscriber"]: each for each in subscribed()}
    assert changed["mailto:b@example.org"]["options"] == {"from": "c@example.org"}
    # When they are deleted, nothing stays behind
    heat.act("delete", resources)
    assert subscribed() == []
    assert queue not in hot.listed(token).text
