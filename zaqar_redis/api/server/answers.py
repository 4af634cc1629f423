# SPDX-License-Identifier: Apache-2.0
"""The bytes with which answers begin that the protocol writes itself."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus

from zaqar_redis.api.exchange import REQUEST_ID

_END = b"content-length: 0\r\nconnection: close\r\n\r\n"
#: End a connection, for what came before a request was complete.
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n" + _END
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\n" + _END
TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n" + _END


@lru_cache(maxsize=64)  # the statuses of a second
def first_lines(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> str:
    """Returns the lines up to the request's id, which comes next."""
    lines = [f"{name.decode()}: {value.decode()}\r\n" for name, value in headers]
    phrase = HTTPStatus(status).phrase
    return f"HTTP/1.1 {status} {phrase}\r\n{''.join(lines)}{REQUEST_ID}: "
