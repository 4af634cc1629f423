# SPDX-License-Identifier: Apache-2.0
"""Messages, as they are sent and as they come."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from typing import Any, TypedDict

#: Bodies that are sent as they are.
BINARY = (bytes, bytearray, memoryview)
#: A value of an attribute.
Attribute = str | int | float | bytes


class DraftFields(TypedDict, total=False):
    """The fields of `Draft`, but for its body."""

    ttl: int | None
    delay: int | None
    deliver_at: datetime | None
    group: str | None
    priority: int | None
    dedup_id: str | None
    content_type: str | None
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to post.  Fields that are None are left to the queue."""

    #: anything that JSON can have; bytes are sent as they are, and come back as bytes
    body: Any
    #: seconds
    ttl: int | None = None
    #: seconds
    delay: int | None = None
    #: instead of *delay*; in UTC if it has no zone
    deliver_at: datetime | None = None
    group: str | None = None
    #: 0 to 31
    priority: int | None = None
    dedup_id: str | None = None
    #: media type of a body that is bytes or text; None: bytes are `application/octet-stream`
    content_type: str | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {"body": self.body}
        if isinstance(self.body, BINARY):
            found = {
                "body": base64.b64encode(self.body).decode(),
                "content_type": "application/octet-stream",
                "body_encoding": "base64",
            }
        for name in ("ttl", "delay", "group", "priority", "dedup_id", "content_type"):
            value = getattr(self, name)
            if value is not None:
                found[name] = value
        if self.deliver_at is not None:
            found["deliver_at"] = self.deliver_at.isoformat()
        if self.attributes:
            found["attributes"] = {
                name: {"binary": base64.b64encode(value).decode()}
                if isinstance(value, bytes)
                else value
                for name, value in self.attributes.items()
            }
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a queue."""

    id: str
    body: Any
    #: seconds
    ttl: int = 0
    #: seconds since it was posted
    age: int = 0
    #: the claim that holds it; empty: none, as far as the client knows
    claim_id: str
    #: how often it was claimed, this time included; 0: the service did not say
    claim_count: int = 0
    #: None: it was not, or the service did not say
    first_claimed: datetime | None
    #: for which it was given back last; empty: none is known
    reason: str = ""
    group: str = ""
    priority: int = 0
    dedup_id: str = ""
    #: empty: the body is JSON
    content_type: str = ""
    attributes: Mapping[str, Attribute]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Message:
        get = document.get
        path, _, query = get("href", "").partition("?")
        body, first_claimed = document["body"], get("first_claimed")
        if get("body_encoding") == "base64":
            body = base64.b64decode(body)
        return cls(
            id=get("id") or path.rpartition("/")[2],
            body=body,
            claim_id=query.partition("claim_id=")[2],
            first_claimed=datetime.fromisoformat(first_claimed) if first_claimed else None,
            attributes={
                name: base64.b64decode(value["binary"]) if isinstance(value, dict) else value
                for name, value in get("attributes", {}).items()
            },
            **{name: document[name] for name in _PLAIN if name in document},
        )


#: The fields that are as they are sent.
_PLAIN = [each.name for each in fields(Message) if each.default is not MISSING]
