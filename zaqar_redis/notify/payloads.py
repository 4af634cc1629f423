# SPDX-License-Identifier: Apache-2.0
"""How messages are written for subscribers: as stock Zaqar does, or as CloudEvents.

A payload is a body and the headers that say what it is; `doc/notifications.md` shows them.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from zaqar_redis import message_fields, rules
from zaqar_redis.notify import events
from zaqar_redis.notify.target import Delivery
from zaqar_redis.records import Message, Record

_JSON = "application/json"
#: Stock Zaqar: what ``post_data`` has where the message goes, its quotes included.
_PLACEHOLDER = '"$zaqar_message$"'

#: W3C Trace Context, 3.2; clients may post anything under that name.
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)

_encode = msgspec.json.Encoder().encode


class Payload(Record, frozen=True):
    body: bytes
    #: names in small letters
    headers: dict[str, str]


def written(delivery: Delivery) -> Payload:
    """Returns the payload of a delivery by its options ``format``, ``batch`` and ``post_data``."""
    if delivery.notice:
        return Payload(delivery.notice, {"content-type": _JSON})
    found = _document(delivery)
    headers = found.headers
    if traceparent := _traceparent(delivery):
        headers = headers | {"traceparent": traceparent}
    template = delivery.options.raw.get("post_data")
    if not template:
        return Payload(found.body, headers)
    body = str(template).encode().replace(_PLACEHOLDER.encode(), found.body)
    return Payload(body, headers)


def _document(delivery: Delivery) -> Payload:
    single = delivery.options.batch == 1
    if delivery.options.format == "zaqar":
        shown = _notification(delivery) if single else _notifications(delivery)
        return Payload(_encode(shown), {"content-type": _JSON})
    base = rules.path_of(delivery.source)
    if not single:
        shown_all = [events.event(delivery.project, base, each) for each in delivery.messages]
        return Payload(_encode(shown_all), {"content-type": events.BATCH})
    (message,) = delivery.messages
    event = events.event(delivery.project, base, message)
    if delivery.options.format == "cloudevents":
        return Payload(_encode(event), {"content-type": events.STRUCTURED})
    body, _ = message_fields.exact(message.attributes or {}, message.body)
    return Payload(body, events.headers(event))


def _notification(delivery: Delivery) -> dict[str, Any]:
    (message,) = delivery.messages
    return _message(message) | _kind(delivery.source)


def _notifications(delivery: Delivery) -> dict[str, Any]:
    shown = [{"id": each.id} | _message(each) for each in delivery.messages]
    return _kind(delivery.source) | {"messages": shown}


def _message(message: Message) -> dict[str, Any]:
    """API: without its id, which the header ``webhook-id`` has."""
    shown: dict[str, Any] = {"body": msgspec.Raw(message.body), "ttl": message.ttl}
    if message.delay:
        shown["delay"] = message.delay
    if message.attributes:
        attributes = {
            # msgspec writes bytes in base64, as REST does.
            name: {"binary": value} if isinstance(value, bytes) else value
            for name, value in message.attributes.items()
        }
        for name in message_fields.OF_BODY.keys() & attributes:
            shown[message_fields.OF_BODY[name]] = attributes.pop(name)
        if attributes:
            shown["attributes"] = attributes
    return shown


def _kind(source: str) -> dict[str, Any]:
    # API: of a topic as well
    name = source.removeprefix(rules.TOPIC_PREFIX)
    return {"Message_Type": "Notification", "queue_name": name}


def _traceparent(delivery: Delivery) -> str:
    """Returns the span that posted the messages; empty: none, or several."""
    if not any(message.attributes for message in delivery.messages):
        return ""
    found = {message.traceparent for message in delivery.messages}
    only = found.pop() if len(found) == 1 else ""
    return only if _TRACEPARENT.fullmatch(only) else ""
