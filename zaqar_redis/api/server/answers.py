# SPDX-License-Identifier: Apache-2.0
"""The bytes with which answers begin that the protocol writes itself."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus

import msgspec

from zaqar_redis.api.exchange import JSON, REQUEST_ID
from zaqar_redis.api.schemas import ProblemOut


def last(status: int, why: str, headers: str = "") -> bytes:
    """Returns an answer that ends a connection, for what came before a request was complete."""
    phrase = HTTPStatus(status).phrase
    body = msgspec.json.encode(ProblemOut(phrase, why)) + b"\n"
    return (
        f"HTTP/1.1 {status} {phrase}\r\n{headers}content-type: {JSON}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    ).encode() + body


TOO_LARGE = last(431, "The line and the headers of a request may have 64 KiB.")
TOO_SLOW = last(408, "The request was not complete within [server] request_timeout.")
TOO_MANY = last(
    503,
    "This worker has as many connections as [server] max_connections allows. Please try again in "
    "a second.",
    "retry-after: 1\r\n",
)
PLAIN_HTTP = last(400, "This port takes TLS only: use https://, or wss://.")


@lru_cache(maxsize=64)  # the statuses of a second
def first_lines(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> str:
    """Returns the lines up to the request's id, which comes next."""
    lines = [f"{name.decode()}: {value.decode()}\r\n" for name, value in headers]
    phrase = HTTPStatus(status).phrase
    return f"HTTP/1.1 {status} {phrase}\r\n{''.join(lines)}{REQUEST_ID}: "
