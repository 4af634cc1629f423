# SPDX-License-Identifier: Apache-2.0
"""Bodies of messages that are sent and answered as they are, without a JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from zaqar_redis import errors, message_fields
from zaqar_redis.api.bodies import PATCH, Body
from zaqar_redis.api.checks import accepts
from zaqar_redis.api.exchange import JSON, Answer, Request
from zaqar_redis.api.queries import QueryReader
from zaqar_redis.records import Message

_OCTETS = "application/octet-stream"
#: What most requests with a document have in their header Content-Type.
USUAL = (None, JSON.encode())
#: API: types of documents, and what clients send with them by accident or for all requests.
_OF_DOCUMENTS = (
    *(JSON, PATCH, "application/vnd.openstack.messaging-v2+json"),
    "application/x-www-form-urlencoded",
)


def content_type(headers: Mapping[bytes, bytes]) -> str | None:
    """Returns the type of a request whose body is that of a message; None: it is a document."""
    kind = headers.get(b"content-type", b"").decode("latin-1").strip()
    main = kind.partition(";")[0].strip().lower()
    return None if main in _OF_DOCUMENTS or "/" not in main else kind


class RawBodyReader:
    """Makes documents with one message of requests whose body is that message's."""

    def __init__(self, body: Body) -> None:
        """*body*: of the document."""
        self._body = body
        self._query = QueryReader(body.raw_query)

    def document(self, request: Request[Any, Any], kind: str, ignored: list[str]) -> bytes:
        """Returns the document that says the same; *ignored* gets parameters without effect.

        So whatever counts for documents counts for it: limits, repetitions, errors.  Raises
        BadParameter, and BadRequest when it is too large.
        """
        fields = structs.asdict(self._query.read(request.query_string, ignored))
        given = {name: value for name, value in fields.items() if value is not None}
        message = message_fields.in_document(request.data, kind) | given
        # Not msgspec: a number may have more than 64 bits.
        document = json.dumps({"messages": [message]}, ensure_ascii=False, separators=(",", ":"))
        data = document.encode()
        if len(data) > self._body.size_max:
            raise self._body.error(
                why=f"The message has {len(data)} bytes as a JSON document, and may have "
                f"{self._body.size_max}."
            )
        return data


def answer(request: Request[Any, None], message: Message) -> Answer:
    """Returns a body as it is, to who accepts its type or any bytes.  Raises NotAcceptable."""
    body, kind = message_fields.exact(message.attributes or {}, message.body)
    accepted = request.headers.get(b"accept", b"").lower()
    asked = kind.partition(";")[0].strip().lower()
    if not (accepts(accepted, asked) or accepts(accepted, _OCTETS)):
        served = dict.fromkeys((JSON, kind, _OCTETS))
        raise errors.NotAcceptable(" or ".join(served))
    headers = (
        # A browser must not run what a client has posted.
        ("content-disposition", "attachment"),
        ("x-content-type-options", "nosniff"),
        ("vary", "accept"),
        *(() if body else (("content-type", kind),)),  # else the server adds it
    )
    return Answer(body, headers=headers, media_type=kind)
