# SPDX-License-Identifier: Apache-2.0
"""What subscribers get: messages as stock Zaqar writes them, and events that CloudEvents reads."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_binary, from_http_event
from cloudevents.core.formats.json import JSONFormat

from tests.notify.endpoints import MESSAGE, delivery
from zaqar_redis.notify.payloads import Payload, written
from zaqar_redis.records import Message

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = msgspec.structs.replace(MESSAGE, id="m2", rank=2, body=b'"two"')
ATTRIBUTED = msgspec.structs.replace(
    MESSAGE,
    attributes={
        "kind": 'a "b" 100% \u00e9\u20ac',
        "count": 7,
        "big": 2**40,
        "share": 0.5,
        "raw": b"\x00\xff",
        "traceparent": TRACEPARENT,
    },
)


def payload(*messages: Message, **options: Any) -> Payload:
    return written(delivery("http://h/", *messages, **options))


def document(*messages: Message, **options: Any) -> Any:
    return json.loads(payload(*messages, **options).body)


# -- stock Zaqar's ---------------------------------------------------------


@pytest.mark.parametrize(("source", "name"), [("q", "q"), ("topic:t", "t")])
def test_notification_has_what_stock_sends(source: str, name: str) -> None:
    found = payload(source=source)
    assert found.headers == {"content-type": "application/json"}
    assert json.loads(found.body) == {
        "body": {"n": 1},
        "ttl": 60,
        "Message_Type": "Notification",
        "queue_name": name,
    }


def test_body_keeps_its_text() -> None:
    message = msgspec.structs.replace(MESSAGE, body=b'{"n": 1.50, "a":  "\\u00e9"}')
    assert b'"body":{"n": 1.50, "a":  "\\u00e9"}' in payload(message).body


def test_delay_and_attributes_are_there_if_the_message_has_them() -> None:
    found = document(msgspec.structs.replace(ATTRIBUTED, delay=5))
    assert found["delay"] == 5
    assert found["attributes"]["raw"] == {"binary": base64.b64encode(b"\x00\xff").decode()}
    assert (found["attributes"]["count"], found["attributes"]["share"]) == (7, 0.5)


TEXT = msgspec.structs.replace(
    MESSAGE, body=b'"a\\r\\u0000\xc3\xa9"', attributes={"_content_type": "text/plain", "n": 1}
)
OCTETS = msgspec.structs.replace(
    MESSAGE, body=b'"AP8="', attributes={"_content_type": "a/b", "_body_encoding": "base64"}
)
EXACT_JSON = msgspec.structs.replace(
    MESSAGE, body=b'"{ }"', attributes={"_content_type": "application/x+JSON ; v=1"}
)


def test_exact_body_has_its_fields_beside_it() -> None:
    found = document(TEXT)
    assert (found["body"], found["content_type"]) == ("a\r\0é", "text/plain")
    assert found["attributes"] == {"n": 1}
    found = document(OCTETS)
    assert (found["body"], found["content_type"], found["body_encoding"]) == (
        "AP8=",
        "a/b",
        "base64",
    )
    assert "attributes" not in found


def test_batch_is_a_list_with_ids_also_of_one_message() -> None:
    kind = {"Message_Type": "Notification", "queue_name": "q"}
    one, two = ({"id": "m1", "body": {"n": 1}}, {"id": "m2", "body": "two"})
    assert document(batch=10) == kind | {"messages": [one | {"ttl": 60}]}
    assert document(MESSAGE, OTHER, batch=10) == kind | {
        "messages": [one | {"ttl": 60}, two | {"ttl": 60}]
    }


def test_post_data_has_the_message_in_place_of_its_mark() -> None:
    template = '{"workflow": "w", "input": "$zaqar_message$", "\u00e9": "zaqar_message"}'
    found = document(raw={"post_data": template})
    assert found == {"workflow": "w", "input": document(), "\u00e9": "zaqar_message"}


def test_post_data_without_the_mark_is_sent_as_it_is() -> None:
    assert payload(raw={"post_data": "plain"}).body == b"plain"


def test_notice_is_delivered_as_it_is() -> None:
    for options in ({}, {"format": "cloudevents"}, {"raw": {"post_data": "x"}}, {"batch": 5}):
        found = payload(notice=b'{"a": 1}', **options)
        assert found == Payload(b'{"a": 1}', {"content-type": "application/json"})


@pytest.mark.parametrize("form", ["zaqar", "cloudevents", "cloudevents-binary"])
def test_span_of_the_post_is_a_header(form: str) -> None:
    assert payload(ATTRIBUTED, format=form).headers["traceparent"] == TRACEPARENT
    assert "traceparent" not in payload(format=form).headers


def test_span_that_is_none_is_no_header() -> None:
    message = msgspec.structs.replace(MESSAGE, attributes={"traceparent": "x\r\nHost: y"})
    assert payload(message).headers == {"content-type": "application/json"}


def test_span_is_no_header_of_messages_of_several_spans() -> None:
    assert "traceparent" not in payload(ATTRIBUTED, OTHER, batch=2).headers


# -- CloudEvents -----------------------------------------------------------

_ATTRIBUTES = {
    "specversion": "1.0",
    "id": "m1",
    "source": "/v2/queues/q",
    "type": "org.openstack.zaqar.message",
    "datacontenttype": "application/json",
    "project": "p",
}


@pytest.mark.parametrize("form", ["cloudevents", "cloudevents-binary"])
def test_package_cloudevents_reads_what_is_sent(form: str) -> None:
    found = payload(format=form)
    event = from_http_event(HTTPMessage(found.headers, found.body), JSONFormat())
    attributes = event.get_attributes()
    time = attributes.pop("time")
    assert attributes == _ATTRIBUTES
    assert time.isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert event.get_data() == {"n": 1}


@pytest.mark.parametrize(
    ("message", "name", "shown", "data", "kind"),
    [
        (TEXT, "data", "a\r\0é", "a\r\0é".encode(), "text/plain"),
        (OCTETS, "data_base64", "AP8=", b"\0\xff", "a/b"),
        (EXACT_JSON, "data_base64", "eyB9", b"{ }", "application/x+JSON ; v=1"),
    ],
)
def test_exact_body_is_the_data_of_an_event(
    message: Message, name: str, shown: str, data: bytes, kind: str
) -> None:
    found = document(message, format="cloudevents")
    assert (found[name], found["datacontenttype"]) == (shown, kind)
    assert len({"data", "data_base64"} & found.keys()) == 1
    sent = payload(message, format="cloudevents-binary")
    assert (sent.body, sent.headers["content-type"]) == (data, kind)
    event = from_binary(HTTPMessage(sent.headers, sent.body), JSONFormat())
    assert (event.get_id(), event.get_datacontenttype()) == ("m1", kind)


def test_fields_of_an_older_release_that_say_nothing_are_passed_over() -> None:
    older = msgspec.structs.replace(MESSAGE, attributes={"_content_type": "a\r\nb: c"})
    for form in ("cloudevents", "cloudevents-binary"):
        assert payload(older, format=form) == payload(format=form)


def test_headers_say_which_mode_it_is() -> None:
    structured, binary = payload(format="cloudevents"), payload(format="cloudevents-binary")
    assert structured.headers == {"content-type": "application/cloudevents+json"}
    assert binary.headers["content-type"] == "application/json"
    assert binary.headers["ce-specversion"] == "1.0"
    assert binary.headers["ce-source"] == "/v2/queues/q"
    assert "ce-datacontenttype" not in binary.headers
    assert binary.body == MESSAGE.body


def test_attributes_of_a_message_are_extension_attributes() -> None:
    found = document(ATTRIBUTED, format="cloudevents")
    assert found["kind"] == 'a "b" 100% \u00e9\u20ac'
    assert (found["count"], found["big"], found["share"]) == (7, str(2**40), "0.5")
    assert found["raw"] == "AP8="
    assert found["traceparent"] == TRACEPARENT


def test_attributes_in_headers_are_percent_encoded() -> None:
    found = payload(ATTRIBUTED, format="cloudevents-binary")
    assert found.headers["ce-kind"] == "a%20%22b%22%20100%25%20%C3%A9%E2%82%AC"
    event = from_binary(HTTPMessage(found.headers, found.body), JSONFormat())
    assert event.get_extension("kind") == 'a "b" 100% \u00e9\u20ac'
    assert event.get_extension("traceparent") == TRACEPARENT


@pytest.mark.parametrize(
    "attributes",
    [
        *({"Kind": "x"}, {"a_b": "x"}, {"a-b": "x"}, {"a" * 21: "x"}, {"line": "a\r\nb: c"}),
        *({"surrogate": "\ud800"}, {"id": "x"}, {"data": "x"}, {"specversion": "x"}),
        *({"project": "x"},),
    ],
)
@pytest.mark.parametrize("form", ["cloudevents", "cloudevents-binary"])
def test_attribute_that_an_event_cannot_have_is_left_out(
    attributes: dict[str, Any], form: str
) -> None:
    with_it = msgspec.structs.replace(MESSAGE, attributes=attributes)
    assert payload(with_it, format=form) == payload(format=form)


def test_batch_of_events_is_a_list_that_the_package_reads() -> None:
    found = payload(MESSAGE, OTHER, format="cloudevents", batch=10)
    assert found.headers == {"content-type": "application/cloudevents-batch+json"}
    events = [JSONFormat().read(None, json.dumps(each)) for each in json.loads(found.body)]
    assert [event.get_id() for event in events] == ["m1", "m2"]
    assert [event.get_data() for event in events] == [{"n": 1}, "two"]


def test_event_of_a_topic_has_its_path_as_source() -> None:
    assert document(source="topic:t", format="cloudevents")["source"] == "/v2/topics/t"
