# SPDX-License-Identifier: Apache-2.0
"""Requests about the messages of one queue, and what they leave there."""

from __future__ import annotations

import json
from typing import Any

from tests.support import servers
from tests.support.raw_http import RawAnswer, RawConnection, request
from tests.support.ways import HOT, WAYS

MESSAGES = "/v2/queues/q/messages"
#: As `post` sends it.
DOCUMENT = b'{"messages": [{"body": "kept"}]}'


def post(project: str, way: str = HOT, body: object = "kept") -> bytes:
    document = json.dumps({"messages": [{"body": body}]}).encode()
    return request("POST", MESSAGES, project, document, WAYS[way].items())


def bodies(answer: RawAnswer) -> list[Any]:
    return [message["body"] for message in json.loads(answer.body)["messages"]]


def kept(connection: RawConnection, project: str) -> list[Any]:
    return bodies(connection.ask(request("GET", f"{MESSAGES}?echo=true&limit=20", project)))


def wait_until_read(service: servers.RunningService) -> None:
    """Waits until the service has read what was sent to it before: it reads in this order."""
    with RawConnection(service.port) as connection:
        connection.ask(request("HEAD", "/v2/ping"), "HEAD")
