# SPDX-License-Identifier: Apache-2.0
"""Messages as CloudEvents 1.0, for its JSON format and for its binding to HTTP.

https://github.com/cloudevents/spec/tree/v1.0.2/cloudevents: spec.md, formats/json-format.md,
bindings/http-protocol-binding.md, extensions/distributed-tracing.md.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from zaqar_redis import message_fields
from zaqar_redis.records import Message

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
TYPE = "org.openstack.zaqar.message"

#: Spec: names have lower-case letters and digits of ASCII, and should not exceed 20 characters.
_NAME = re.compile(r"[a-z0-9]{1,20}", re.ASCII)
#: Those that an event has anyway, or that say what its data is.
_OWN = {
    *("specversion", "id", "source", "type", "time", "datacontenttype", "dataschema"),
    *("data", "project"),
}
_JSON_TYPE = re.compile(r"[/+]json *(;|$)", re.IGNORECASE)
#: Spec: characters that strings may not have.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
#: Printable ASCII that is not percent-encoded in a header: all but blank, quote and percent sign.
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


def event(project: str, source: str, message: Message) -> dict[str, Any]:
    """Returns an event in the JSON format; *source* is the path of the queue or topic.

    Attributes of the message are extension attributes, unless their names or values are not
    possible there; ``traceparent`` is that of the extension for distributed tracing.
    """
    created = datetime.fromtimestamp(message.created / 1000, UTC)
    return {
        "specversion": "1.0",
        "id": message.id,
        "source": source,
        "type": TYPE,
        "time": created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        **({"project": project} if project and not _CONTROL.search(project) else {}),
        **_extensions(message.attributes or {}),
        **_data(message),
    }


def _data(message: Message) -> dict[str, Any]:
    attributes = message.attributes or {}
    data, kind = message_fields.exact(attributes, message.body)
    # Spec: a string is data of other types, but JSON is there as JSON.
    is_text = message_fields.BODY_ENCODING not in attributes and not _JSON_TYPE.search(kind)
    if data is message.body or is_text:
        return {"datacontenttype": kind, "data": msgspec.Raw(message.body)}
    return {"datacontenttype": kind, "data_base64": data}


def headers(event: Mapping[str, Any]) -> dict[str, str]:
    """Returns the headers of an event in binary mode, whose body is its data."""
    found = {"content-type": event["datacontenttype"]}
    for name, value in event.items():
        if name not in ("data", "data_base64", "datacontenttype"):
            found[f"ce-{name}"] = quote(str(value), safe=_PLAIN)
    return found


def _extensions(attributes: Mapping[str, str | int | float | bytes]) -> dict[str, str | int]:
    found = {}
    for name, value in attributes.items():
        if _NAME.fullmatch(name) and name not in _OWN:
            shown = _extension(value)
            if not (isinstance(shown, str) and _CONTROL.search(shown)):
                found[name] = shown
    return found


def _extension(value: str | int | float | bytes) -> str | int:
    """Returns a value of a type that attributes have: integers of 32 bits, and strings."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, int) and -(2**31) <= value < 2**31:
        return value
    return str(value)
