# SPDX-License-Identifier: Apache-2.0
"""The log in the formats of oslo.log, with the context of the request."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest

from tests.support import servers
from tests.support.raw_http import CLIENT
from tests.support.tiers import in_gate
from tests.support.ways import WAYS


@pytest.mark.parametrize("way", in_gate(WAYS))
def test_line_about_a_request_has_its_context(tmp_path: Path, project: str, way: str) -> None:
    log = tmp_path / "zaqar.log"
    options: dict[str, dict[str, object]] = {
        "server": {"log_format": "oslo"},
        "DEFAULT": {"log_file": log, "use_json": True},
        # A key that is no longer that of the stored body.
        "transport": {"message_encryption_key": "b" * 32},
    }
    headers = {"Client-ID": CLIENT, "X-Project-ID": project} | WAYS[way]
    with servers.redis_server() as redis:
        first = {"transport": {"message_encryption_key": "a" * 32}}
        with servers.service(redis.uri, options=first) as running:
            queue = f"{running.url}/v2/queues/q"
            with httpx.Client(headers=headers, timeout=30) as client:
                encrypts, document = {"_enable_encrypt_messages": True}, {"messages": [{"body": 1}]}
                client.put(queue, json=encrypts).raise_for_status()
                client.post(f"{queue}/messages", json=document).raise_for_status()
        with servers.service(redis.uri, options=options) as running:
            url = f"{running.url}/v2/queues/q/messages?echo=true"
            answer = httpx.get(url, headers=headers, timeout=30)
            assert answer.status_code == 500
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    [failed] = [line for line in lines if line["levelname"] == "ERROR"]
    assert failed["context"]["request_id"] == answer.headers["X-OpenStack-Request-ID"]
    assert failed["context"]["project_id"] == project
    assert failed["name"].startswith("zaqar_redis.")


def test_options_of_oslo_log_are_known_only_with_it() -> None:
    options: dict[str, dict[str, object]] = {"DEFAULT": {"use_json": True}}
    with (
        servers.redis_server() as redis,
        pytest.raises(RuntimeError, match="use_json: there is no such option"),
        servers.service(redis.uri, options=options),
    ):
        pass


def test_service_that_logs_by_oslo_stops_cleanly(tmp_path: Path) -> None:
    options: dict[str, dict[str, object]] = {
        "server": {"log_format": "oslo"},
        "DEFAULT": {"log_dir": tmp_path},
    }
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as running:
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0
    [log] = tmp_path.iterdir()
    assert "store: " in log.read_text()
