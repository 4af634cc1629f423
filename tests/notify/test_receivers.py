# SPDX-License-Identifier: Apache-2.0
"""The receivers in ``examples/receivers`` do with real webhooks what they promise."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.conventions.files import ROOT
from tests.support import servers
from zaqar_redis.notify.targets.http import signed_headers
from zaqar_redis.service.subscription_options import new_secret

_EXAMPLES = ROOT / "examples" / "receivers"
_CLIENT_ID = "3381af92-2b9e-11e3-b191-71861300734c"


def _rows(path: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        return [json.loads(body) for (body,) in database.execute("SELECT body FROM messages")]


def _lines(path: Path) -> list[Any]:
    return [json.loads(line)["body"] for line in path.read_text().splitlines()]


class Example(NamedTuple):
    command: list[str]
    #: of the bodies that it has handled, in a file
    handled: Callable[[Path], list[Any]]


_RECEIVERS = {
    "python": Example([sys.executable, str(_EXAMPLES / "receiver.py")], _rows),
    "javascript": Example(["node", str(_EXAMPLES / "receiver.mjs")], _lines),
}


class RunningReceiver(NamedTuple):
    url: str
    secret: str
    handled: Callable[[], list[Any]]


@pytest.fixture(scope="module")
def service() -> Iterator[servers.RunningService]:
    """A service with a Redis of its own: no notifier with other options delivers for it."""
    options: dict[str, dict[str, object]] = {
        "signed_url": {"secret_key": "a secret for tests"},
        "notification": {"allowed_networks": "127.0.0.0/8", "require_confirmation": True},
    }
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as running:
        yield running


@pytest.fixture(params=[*_RECEIVERS])
def receiver(
    request: pytest.FixtureRequest, service: servers.RunningService, tmp_path: Path
) -> Iterator[RunningReceiver]:
    example = _RECEIVERS[request.param]
    url, file, secret = f"http://127.0.0.1:{servers.free_port()}", tmp_path / "kept", new_secret()
    file.touch()
    process = subprocess.Popen(
        [*example.command, url.rpartition(":")[2], str(file)],
        env=os.environ | {"WEBHOOK_SECRET": secret, "ZAQAR_URL": service.url},
        stderr=subprocess.DEVNULL,
    )

    def answers() -> bool:
        assert process.poll() is None
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(url, verify=False).status_code > 0
        return False

    try:
        servers.wait_for(answers, "the receiver to start")
        yield RunningReceiver(url, secret, lambda: example.handled(file))
    finally:
        process.kill()
        process.wait()


def test_receiver_confirms_and_handles_each_genuine_message_once(
    service: servers.RunningService, receiver: RunningReceiver, project: str
) -> None:
    headers = {"Client-ID": _CLIENT_ID, "X-Project-ID": project}
    url = f"{service.url}/v2/queues/q"
    with httpx.Client(base_url=url, headers=headers, timeout=30) as queue:
        options = {"secrets": [new_secret(), receiver.secret]}  # as they are while they rotate
        wanted = {"subscriber": receiver.url, "ttl": 600, "options": options}
        id = queue.post("/subscriptions", json=wanted).json()["subscription_id"]
        servers.wait_for(
            lambda: queue.get(f"/subscriptions/{id}").json()["confirmed"], "the confirmation"
        )
        queue.post("/messages", json={"messages": [{"body": {"order": 7}}]}).raise_for_status()
        servers.wait_for(lambda: receiver.handled() == [{"order": 7}], "the message")

    assert _post(receiver, "one", "again and again") == 204
    assert _post(receiver, "one", "again and again") == 204
    assert _post(receiver, "two", "forged", secret=new_secret()) == 401
    assert _post(receiver, "three", "old", age=600) == 401
    assert _post(receiver, "four", "without a signature", secret="") == 401
    assert receiver.handled() == [{"order": 7}, "again and again"]


def _post(
    receiver: RunningReceiver, id: str, body: str, *, secret: str | None = None, age: int = 0
) -> int:
    """Sends a webhook as the service would; by default with the right secret."""
    message = {"Message_Type": "Notification", "queue_name": "q", "body": body, "ttl": 60}
    content = json.dumps(message).encode()
    chosen = receiver.secret if secret is None else secret
    signed = signed_headers([chosen] if chosen else [], id, int(time.time()) - age, content)
    answer = httpx.post(receiver.url, content=content, headers=signed, verify=False, timeout=30)
    return answer.status_code
