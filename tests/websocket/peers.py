# SPDX-License-Identifier: Apache-2.0
"""A client of the WebSocket API, in JSON or MessagePack."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgpack
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support import servers


class ApiResponse(NamedTuple):
    status: int
    body: Any


class ApiPeer:
    def __init__(self, socket: ClientConnection, project: str, *, binary: bool) -> None:
        self.socket = socket
        self.project = project
        self.binary = binary
        self.headers: dict[str, Any] = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": project}

    def ask(
        self, action: str, given: Mapping[str, Any] | None = None, /, **body: Any
    ) -> ApiResponse:
        """Sends a request, with the headers *given* besides; returns its response, which must be
        the next frame and tell which request it answers."""
        headers = self.headers | dict(given or {})
        self.send({"action": action, "headers": headers, "body": body})
        response = self.receive()
        assert response.keys() == {"request", "body", "headers"}
        echo = {"action": action, "headers": headers, "body": body, "api": "v2"}
        assert response["request"] == echo
        return ApiResponse(response["headers"]["status"], response["body"])

    def send(self, document: Any) -> None:
        self.socket.send(msgpack.packb(document) if self.binary else json.dumps(document))

    def receive(self) -> Any:
        """Returns the next response or push, which must be in the encoding of the requests."""
        frame = self.socket.recv(60)
        assert isinstance(frame, bytes) == self.binary
        return msgpack.unpackb(frame) if isinstance(frame, bytes) else json.loads(frame)

    def expect_close(self) -> tuple[int, str]:
        """Returns code and reason of the close, which must be the next thing to come."""
        with pytest.raises(ConnectionClosed) as ended:
            raise AssertionError(self.socket.recv(60))
        close = ended.value.rcvd
        assert close is not None
        return close.code, close.reason


@contextlib.contextmanager
def api_peer(
    service: servers.RunningService, project: str, *, binary: bool = False, path: str = "/v2/ws"
) -> Iterator[ApiPeer]:
    # Proxies of the environment are not for loopback.
    with connect(f"ws://127.0.0.1:{service.port}{path}", proxy=None) as socket:
        yield ApiPeer(socket, project, binary=binary)
