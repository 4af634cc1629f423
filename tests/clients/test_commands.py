# SPDX-License-Identifier: Apache-2.0
"""The ``openstack messaging`` commands of python-zaqarclient."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest

#: osc-lib warns about one of its own modules at import.
pytestmark = pytest.mark.filterwarnings("ignore:The osc_lib.version module:DeprecationWarning")

Run = Callable[..., Any]


@pytest.fixture
def openstack(zaqar: Any, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs ``openstack messaging <words>`` and returns its output, as JSON.

    Like the shell, it finds commands by their entry points and gives them its clients.
    """
    points = metadata.entry_points(group="openstack.messaging.v2")

    def run(words: str, *arguments: str) -> Any:
        output = io.StringIO()
        shell = SimpleNamespace(
            client_manager=SimpleNamespace(messaging=zaqar), stdout=output, interactive_mode=False
        )
        (point,) = [p for p in points if p.name == "messaging_" + words.replace(" ", "_")]
        command = point.load()(shell, None)
        parser = command.get_parser(f"openstack messaging {words}")
        shown = hasattr(command, "formatter_default")
        flags = ["-f", "json"] if shown else []
        command.run(parser.parse_args([*arguments, *flags]))
        text = output.getvalue() or capsys.readouterr().out
        return json.loads(text) if text else None

    return run


def test_queues(openstack: Run, queue_name: str) -> None:
    assert openstack("queue create", queue_name) == {"Name": queue_name}
    openstack("queue set metadata", queue_name, '{"colour": "red"}')
    shown = openstack("queue get metadata", queue_name)["Metadata"]
    assert shown["colour"] == "red"

    for n in range(3):
        openstack("queue create", f"{queue_name}-{n}")
    assert openstack("queue list") == [
        {"Name": name} for name in (queue_name, *(f"{queue_name}-{n}" for n in range(3)))
    ]
    (second,) = openstack(
        "queue list", "--limit", "1", "--marker", queue_name, "--detailed", "--with_count"
    )
    assert second["Name"] == f"{queue_name}-0"
    assert second["Href"] == f"/v2/queues/{queue_name}-0"
    assert second["Metadata_Dict"]["_default_message_ttl"] == 3600

    openstack("queue delete", f"{queue_name}-0")
    assert len(openstack("queue list")) == 3
    assert openstack("queue stats", queue_name) == {
        "Stats": {"messages": {"claimed": 0, "free": 0, "total": 0}}
    }


def test_messages(openstack: Run, queue_name: str) -> None:
    me = ("--client-id", str(uuid.uuid4()))
    openstack("message post", queue_name, '[{"body": "a"}, {"body": "b"}]', *me)
    assert openstack("message list", queue_name, *me) == []
    listed = openstack(
        "message list", queue_name, "--echo", "--include-claimed", "--include-delayed", *me
    )
    assert [message["Body"] for message in listed] == ["a", "b"]
    ids = ",".join(message["ID"] for message in listed)
    found = openstack("message list", queue_name, "--message-ids", ids, *me)
    assert [message["ID"] for message in found] == ids.split(",")

    openstack("queue purge", queue_name, "--resource_types", "messages")
    assert openstack("message list", queue_name, "--echo", *me) == []


def test_claims(openstack: Run, queue_name: str) -> None:
    me = ("--client-id", str(uuid.uuid4()))
    openstack("message post", queue_name, '[{"body": "a"}, {"body": "b"}]', *me)
    (taken,) = openstack("claim create", queue_name, "--limit", "1", "--ttl", "90")
    assert taken["Messages"] == "a"
    claim = taken["Claim_ID"]

    (found,) = openstack("claim query", queue_name, claim)
    assert found["Message"] == "a"
    openstack("claim renew", queue_name, claim, "--ttl", "5000", "--grace", "60")
    (found,) = openstack("claim query", queue_name, claim)
    assert found["TTL"] == 5060

    openstack("claim release", queue_name, claim)
    again = openstack("claim create", queue_name)
    assert [message["Messages"] for message in again] == ["a", "b"]


def test_signed_urls(openstack: Run, queue_name: str, project: str) -> None:
    shown = openstack(
        "queue signed url",
        queue_name,
        *("--paths", "messages,claims", "--methods", "GET,POST", "--ttl-seconds", "60"),
    )
    base = f"/v2/queues/{queue_name}"
    assert shown["Paths"] == f"{base}/claims,{base}/messages"
    assert shown["Methods"] == "GET,POST"
    assert shown["Project ID"] == project
    assert len(shown["Signature"]) == 64


def test_ping_and_health_commands(openstack: Run) -> None:
    assert openstack("ping") == {"Pingable": True}
    assert openstack("health")["storage_reachable"] is True
    assert "rel/queues" in openstack("homedoc")["resources"]
