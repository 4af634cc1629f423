# SPDX-License-Identifier: Apache-2.0
"""What the head of a request may not have, whatever it asks for and whoever sends it.

A proxy in front decides by the same path, headers and body.  Where it could see another request
than the service does, its rules would protect nothing.  Requests with such a head, and some others,
do not take the fast path, which therefore checks none of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zaqar_redis import errors
from zaqar_redis.auth.strategy import PROJECT_HEADERS

#: A value of these has no list (RFC 9110, 5.5): which of two counts, each program would choose.
_SINGULAR = frozenset(
    (
        *PROJECT_HEADERS,
        *(b"client-id", b"url-signature", b"url-expires", b"idempotency-key", b"content-type"),
    )
)
#: Not even the same value comes twice: RFC 9112, 3.2, what the library of sockets refuses, and
#: credentials.
_ONCE = frozenset(
    (b"host", b"origin", b"authorization", b"x-auth-token", b"x-service-token", b"x-api-key")
)


def read(scope: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Returns the headers of a request, or of a handshake, in ASGI's *scope*.

    The values of one that comes repeatedly are joined (RFC 9110, 5.3).  Raises NotFound for another
    spelling of a path, BadRequest and UnsupportedContentCoding.
    """
    _check_path(scope["raw_path"])
    sent: Sequence[tuple[bytes, bytes]] = scope["headers"]
    headers = dict(sent)
    if len(headers) < len(sent):
        headers = _joined(sent)
    if len({headers[name] for name in PROJECT_HEADERS if name in headers}) > 1:
        raise errors.BadRequest(why="The headers name different projects: send X-Project-ID only.")
    if b"transfer-encoding" in headers:
        _check_transfer_codings(headers[b"transfer-encoding"])
    if b"content-encoding" in headers and has_content(headers):
        _check_content_codings(headers[b"content-encoding"])
    return headers


def has_content(headers: Mapping[bytes, bytes]) -> bool:
    """Returns whether a body comes behind the head; one that is chunked may turn out empty."""
    return b"transfer-encoding" in headers or int(headers.get(b"content-length", 0)) > 0


def _check_path(path: bytes) -> None:
    if path.startswith(b"//"):
        raise errors.NotFound(why="The path begins with more than one slash: send one.")
    # A slash of data and one that separates are not the same (RFC 3986, 2.2).
    if b"%2f" in path.lower():
        raise errors.NotFound(why="The path has an encoded slash, %2F: send names without one.")


def _joined(sent: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in sent:
        before = headers.get(name)
        if before is None:
            headers[name] = value
        elif name in _ONCE or (name in _SINGULAR and before != value):
            why = f"The header {name.decode().title()} comes more than once: send it once."
            raise errors.BadRequest(why=why)
        elif name not in _SINGULAR:
            headers[name] = b"%b, %b" % (before, value)
    return headers


def _check_transfer_codings(codings: bytes) -> None:
    # RFC 9112, 6.1.  The parser refuses all where chunked is not the last.
    if list(_items(codings)) != [b"chunked"]:
        why = (
            "The only Transfer-Encoding that is accepted is chunked: send the body without another."
        )
        raise errors.BadRequest(why=why)


def _check_content_codings(codings: bytes) -> None:
    if any(coding != b"identity" for coding in _items(codings)):
        raise errors.UnsupportedContentCoding


def _items(value: bytes) -> Iterator[bytes]:
    """Yields what is in a list (RFC 9110, 5.6.1)."""
    return filter(None, (item.strip().lower() for item in value.split(b",")))
