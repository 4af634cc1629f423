# SPDX-License-Identifier: Apache-2.0
"""HTTP streaming clients that see the raw replies."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import httpx
import jwt

from tests.realtime.sdk_client import KEY, SECRET
from tests.support import servers

PAGE = "https://app.example.org"
OPTIONS: dict[str, dict[str, object]] = {
    "channels": {
        "token_hmac_secret_key": SECRET,
        "api_key": KEY,
        "allowed_origins": "https://*.example.org",
        "ping_interval": 5,
        "pong_timeout": 4.9,
        "namespaces": "chat,flood",
    },
    "channels:chat": {
        "presence": True,
        "history_size": 20,
        "history_ttl": 60,
        "force_recovery": True,
        "allow_subscribe_for_client": True,
        "allow_publish_for_subscriber": True,
    },
    "channels:flood": {"presence": True},
}
#: The same for clients that answer no pings: pongs are not due within a test.
PATIENT = OPTIONS | {"channels": OPTIONS["channels"] | {"ping_interval": 60, "pong_timeout": 59.0}}
EMULATED = ["http_stream", "sse"]
UNIDIRECTIONAL = ["uni_http_stream", "uni_sse"]


def token(*channels: str, **claims: Any) -> str:
    """Returns a token of the user "ann" with *channels*."""
    return jwt.encode({"sub": "ann", "channels": channels} | claims, SECRET, algorithm="HS256")


def connect(*channels: str, **claims: Any) -> dict[str, Any]:
    return {"id": 1, "connect": {"token": token(*channels, **claims)}}


def lines(*commands: dict[str, Any]) -> str:
    return "\n".join(json.dumps(command) for command in commands)


class StreamingClient:
    """A client of an open HTTP stream."""

    def __init__(self, service: servers.RunningService, transport: str, first: str) -> None:
        self._service = service
        self._stack = contextlib.ExitStack()
        client = self._stack.enter_context(httpx.Client(base_url=service.url, timeout=60))
        path = f"/connection/{transport}"
        if transport.endswith("sse"):
            request = client.stream("GET", path, params={"cf_connect": first})
        else:
            request = client.stream("POST", path, content=first)
        self.response = self._stack.enter_context(request)
        self.lines = self.response.iter_lines()
        self.session = self.node = ""

    def __enter__(self) -> StreamingClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def next(self, *, pings: bool = False) -> Any:
        """Returns the next reply or push; skips pings unless *pings*."""
        for line in self.lines:
            reply = json.loads(line.removeprefix("data: ")) if line else {}
            if reply or (pings and line):
                return reply
        raise EOFError

    def connected(self) -> Any:
        """Returns the connect result; from then on `send` works."""
        reply = self.next()
        result = reply["connect"]
        self.session, self.node = result["session"], result["node"]
        return result

    def send(self, *commands: dict[str, Any]) -> None:
        answer = emulate(self._service, self.session, self.node, lines(*commands))
        assert answer.status_code == 204

    def last_push(self) -> Any:
        """Returns the last message before the stream ended, or None."""
        last: Any = None
        with contextlib.suppress(EOFError):
            while True:
                last = self.next()
        return last


def emulate(service: servers.RunningService, session: str, node: str, data: str) -> httpx.Response:
    body = {"session": session, "node": node, "data": data}
    return httpx.post(f"{service.url}/emulation", json=body, timeout=60)


def api(service: servers.RunningService, method: str, **params: Any) -> Any:
    headers = {"X-API-Key": KEY}
    answer = httpx.post(f"{service.url}/api/{method}", json=params, headers=headers, timeout=60)
    return answer.json()["result"]


def present(service: servers.RunningService, channel: str) -> int:
    return int(api(service, "presence_stats", channel=channel)["num_clients"])


def disconnect(code: int, reason: str) -> dict[str, Any]:
    reconnect = {} if 3500 <= code < 4000 else {"reconnect": True}
    return {"disconnect": {"code": code, "reason": reason} | reconnect}
