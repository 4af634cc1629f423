# SPDX-License-Identifier: Apache-2.0
"""The log of a service: one line an event, with the fields of a request, and no secrets."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import httpx
import jwt
import pytest

from tests.support import servers
from tests.support.raw_http import CLIENT, RawConnection, request
from tests.support.ways import WAYS
from zaqar_redis.cli.service_log import JsonFormatter, TextFormatter

#: What no line may contain.
_SECRETS = ("geheim-body", "geheim-key", "geheim-token", "geheim-password", "geheim-query")
_SOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture(scope="module")
def service() -> Iterator[servers.RunningService]:
    """A service that logs all it can, as JSON."""
    options: dict[str, dict[str, object]] = {
        "server": {"log_format": "json", "log_level": "debug", "access_log": True},
        "channels": {"api_key": "geheim-key", "token_hmac_secret_key": "geheim-key"},
        "signed_url": {"secret_key": "geheim-key"},
    }
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, "--admin", options=options) as running,
    ):
        yield running


def lines(service: servers.RunningService) -> list[dict[str, Any]]:
    """Returns the log, without the audit log, and what is written before it begins."""
    text = service.log.read_text().rpartition("\n")[0]  # the last line may be incomplete
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in found if "logger" in line]


def accesses(service: servers.RunningService, request_id: str) -> list[dict[str, Any]]:
    """Returns the lines of the access log about a request."""
    return [line for line in lines(service) if line.get("request_id") == request_id]


@pytest.mark.parametrize("way", WAYS)
def test_access_log_has_a_line_for_each_request(
    service: servers.RunningService, project: str, way: str
) -> None:
    headers = {"Client-ID": CLIENT, "X-Project-ID": project} | WAYS[way]
    url = f"{service.url}/v2/queues/orders/messages"
    document = {"messages": [{"body": "geheim-body"}]}
    for answer in (
        httpx.post(url, headers=headers, json=document, verify=False),
        httpx.get(f"{url}?limit=0&x=geheim-query", headers=headers, verify=False),
    ):
        [line] = accesses(service, answer.headers["x-openstack-request-id"])
        assert line["status"] == answer.status_code
        assert line["method"] == answer.request.method
        assert line["path"] == "/v2/queues/orders/messages"
        assert line["action"] == "access"
        assert (line["project"], line["queue"]) == (project, "orders")
        assert (line["peer"], line["client_id"]) == ("127.0.0.1", CLIENT)
        assert 0 < line["duration"] < 60


def test_access_log_has_a_line_for_each_socket(service: servers.RunningService) -> None:
    for path, status in (("/v2/ws", 101), ("/nowhere", 404)):
        with RawConnection(service.port) as connection:
            connection.send(request("GET", f"{path}?t=geheim-query", headers=_SOCKET.items()))
            assert b"HTTP/1.1 %d" % status in connection.until_text(b"\r\n\r\n")

        def is_logged(path: str = path, status: int = status) -> bool:
            return any(
                line.get("path") == path and line["status"] == status and "duration" in line
                for line in lines(service)
            )

        servers.wait_for(is_logged, f"the line about {path}")


def test_log_has_no_secrets(service: servers.RunningService, project: str) -> None:
    headers = {
        "Client-ID": CLIENT,
        "X-Project-ID": project,
        "X-Auth-Token": "geheim-token",
        "Authorization": "Bearer geheim-token",
    }
    pool = {"uri": "redis://user:geheim-password@127.0.0.1:1/0", "weight": 1}
    with httpx.Client(base_url=service.url, headers=headers, verify=False, timeout=60) as client:
        client.put("/v2/pools/lost", json=pool)
        client.post("/v2/queues/q/messages", json={"messages": [{"body": "geheim-body"}]})
        client.post("/v2/queues/q/messages", content=b'{"messages": "geheim-body"')
        client.get("/v2/queues/q/messages?geheim-query=geheim-query&limit=none")
        client.post("/api/publish", headers={"X-API-Key": "geheim-key"}, json={"data": "x"})
        client.get("/connection/sse?cf_connect=geheim-query")
        last = client.get("/v2/ping").headers["x-openstack-request-id"]
    servers.wait_for(lambda: accesses(service, last) != [], "the last line")
    text = service.log.read_text()
    assert [secret for secret in _SECRETS if secret in text] == []


def test_short_key_of_tokens_is_named_once(service: servers.RunningService) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        token = jwt.encode({"sub": "ann"}, "geheim-key", algorithm="HS256")
    url = f"{service.url}/connection/uni_http_stream"
    with httpx.stream("POST", url, json={"token": token}, timeout=60) as connected:
        assert "connect" in next(connected.iter_lines())
    about = [line for line in lines(service) if line.get("action") == "short_key"]
    assert [line["level"] for line in about] == ["warning"]
    assert "[channels] token_hmac_secret_key has 10 bytes" in about[0]["message"]
    assert "HMAC key is" not in service.log.read_text()


def test_warnings_of_libraries_have_the_format() -> None:
    program = (
        "import warnings\n"
        "from zaqar_redis.cli import service_log\n"
        "from zaqar_redis.conf.groups import ProcessSettings\n"
        "service_log.start(None, ProcessSettings())\n"
        "warnings.warn('it is old', stacklevel=1)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    [line] = found.stderr.decode().splitlines()
    assert re.match(r"\[.*\] \[\d+\] \[WARNING\] UserWarning: it is old \(", line)


def test_lines_of_all_libraries_have_the_format(service: servers.RunningService) -> None:
    loggers = {line["logger"].split(".")[0] for line in lines(service)}
    assert {"zaqar_redis", "gunicorn", "uvicorn"} <= loggers
    assert [line for line in service.log.read_text().splitlines() if line[:1] != "{"] == []


def test_pool_that_is_lost_is_named(project: str) -> None:
    options: dict[str, dict[str, object]] = {
        "server": {"log_format": "json"},
        # The lost one refuses connections: nothing takes as long.
        "redis": {"connect_timeout": 60, "timeout": 60},
    }
    with (
        servers.redis_server() as redis,
        servers.redis_server() as lost,
        servers.service(redis.uri, "--admin", options=options) as service,
    ):
        headers = {"Client-ID": CLIENT, "X-Project-ID": project}
        pool = {"uri": lost.uri, "weight": 1}
        with httpx.Client(base_url=service.url, headers=headers, verify=False, timeout=60) as http:
            assert http.put("/v2/pools/second", json=pool).status_code == 201
            assert http.get("/healthcheck/ready").status_code == 200
            lost.signal(signal.SIGKILL)

            def is_named() -> bool:
                return any(
                    (line.get("store"), line.get("action")) == ("second", "store_lost")
                    for line in lines(service)
                )

            servers.wait_for(is_named, "the line about the pool")
            ready = http.get("/healthcheck/ready")
            assert (ready.status_code, "second" in ready.text) == (503, True)
            assert http.get("/healthcheck").status_code == 200


def test_levels_of_single_loggers_change_at_a_reload() -> None:
    options: dict[str, dict[str, object]] = {"server": {"log_level": "warning"}}
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as service:
        assert service.log.read_text().count("[INFO]") == 0

        def reload(levels: str) -> None:
            text = f"[server]\nlog_level = warning\nlog_levels = {levels}\n"
            servers.config_file(service.log.parent, text)
            service.process.send_signal(signal.SIGHUP)

        reload("zaqar_redis.keyspace=info, gunicorn.error=info")
        servers.wait_for(lambda: "new workers serve" in service.log.read_text(), "the reload")
        servers.wait_for(
            lambda: "[INFO] connected to" in service.log.read_text(), "the level of a logger"
        )
        assert "Application startup" not in service.log.read_text()  # uvicorn's
        size = len(service.log.read_text())
        reload("uvicorn.error=info")

        def later() -> str:
            """Returns what the new worker has logged."""
            return service.log.read_text()[size:].partition("Started server process")[2]

        servers.wait_for(lambda: "Application startup" in later(), "the other level")
        assert "[INFO] connected to" not in later()


def _record(message: str, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("zaqar_redis.x", logging.WARNING, "", 0, message, (), None)
    vars(record).update(extra)
    return record


def test_event_is_one_line_whatever_is_in_it() -> None:
    record = _record("first\nsecond\x1b[0m", queue="a b", store="one\r\ntwo")
    try:
        raise ValueError("several\nlines")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(record)
        assert line.isprintable(), line
        assert "several" in line
        assert "Traceback" in line
    document = json.loads(JsonFormatter().format(record))
    assert document["message"] == "first\nsecond\x1b[0m"
    assert (document["queue"], document["store"]) == ("a b", "one\r\ntwo")


def test_text_has_fields_behind_it() -> None:
    record = _record("gone", action="store_lost", store="one", queue="", project=None)
    assert TextFormatter().format(record).endswith("[WARNING] gone action=store_lost store=one")


def test_event_of_a_delivery_says_whose_it_is_and_why() -> None:
    record = _record("given up", subscription="4711", error="it answered 404", queue="orders")
    for formatter in (TextFormatter(), JsonFormatter()):
        for text in ("orders", "4711", "it answered 404"):
            assert text in formatter.format(record)
