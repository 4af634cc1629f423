# SPDX-License-Identifier: Apache-2.0
"""Reading the JSON documents of requests; their shapes are in `schemas`.

They are decoded and validated in one step; unknown fields are ignored, as in Zaqar.  Bodies of
messages are checked to be JSON and stored unchanged.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from zaqar_redis import errors, message_fields, rules, schedules
from zaqar_redis.api import schemas
from zaqar_redis.api.operator_schemas import PoolChangeIn
from zaqar_redis.api.schemas import PostIn, PurgeIn
from zaqar_redis.api.subscription_schemas import SubscriptionChangeIn
from zaqar_redis.records import Attributes, NewMessage, SubscriptionChanges

T = TypeVar("T")

#: Fields of a subscription.
_CHANGEABLE = SubscriptionChangeIn.__struct_fields__

_NO_TEXTS: Mapping[str, str] = {}
#: What the decoder says of the document itself.
_MISSING = re.compile(r"Object missing required field `(.*)`")
#: Raised by the JSON decoder, or by our check for UTF-8.
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def drafts(document: PostIn, with_checksum: bool, traceparent: str = "") -> list[NewMessage]:
    """Returns the messages to post, by the span *traceparent*, if that is not empty.

    Raises BadBody, BadRequest.
    """
    of_request = {"traceparent": traceparent} if traceparent else None
    if document.messages is msgspec.UNSET:
        raise errors.BadRequest(why="No messages were found in the request body.")
    number = len(document.messages)
    return [
        NewMessage(
            body=(body := bytes(item.body)),
            ttl=item.ttl,
            delay=item.delay,
            deliver_at=None
            if item.deliver_at is None
            else schedules.parse(item.deliver_at, errors.at_message(place, number)),
            checksum=_checksum(body) if with_checksum else b"",
            attributes=of_request
            if (item.attributes, item.group, item.priority) == (None, None, None)
            and (item.dedup_id, item.content_type, item.body_encoding) == (None, None, None)
            else _given_attributes(item, of_request, place, number),
            dedup="",
        )
        for place, item in enumerate(document.messages)
    ]


def _given_attributes(
    item: schemas.MessageIn, of_request: Attributes | None, place: int, number: int
) -> Attributes:
    for name in message_fields.FIELDS.keys() & (item.attributes or {}):
        raise errors.BadRequest(
            why=f'"attributes": the name {name} stands for the field '
            f'"{message_fields.FIELDS[name]}" of a message.{errors.at_message(place, number)}'
        )
    given = {name: getattr(item, field, None) for name, field in message_fields.FIELDS.items()}
    return (
        dict(of_request or {})
        | {
            name: value.binary if isinstance(value, schemas.BinaryIn) else value
            for name, value in (item.attributes or {}).items()
        }
        | {name: value for name, value in given.items() if value is not None}
    )


def purged_types(document: PurgeIn) -> list[str]:
    """Returns the resource types to purge.  Raises BadRequest."""
    for name in document.resource_types:
        if name not in schemas.PURGEABLE:
            raise errors.BadRequest(why=f'"{name}" in "resource_types" cannot be purged.')
    return document.resource_types


def subscription_changes(document: SubscriptionChangeIn) -> SubscriptionChanges:
    """Returns what is to change of a subscription.  Raises BadBody."""
    found = given(document)
    found = {name: found[name] for name in _CHANGEABLE if found.get(name) is not None}
    if not found:
        raise errors.BadBody(
            why='Request body: one of "subscriber", "ttl", "options" or "paused" must be given, '
            "and not be null."
        )
    return SubscriptionChanges(**found)


def given(document: PoolChangeIn | SubscriptionChangeIn) -> dict[str, Any]:
    """Returns the fields that a document has."""
    return {
        name: value
        for name, value in msgspec.structs.asdict(document).items()
        if value is not msgspec.UNSET
    }


def decode(
    decoder: msgspec.json.Decoder[T], data: bytes, texts: Mapping[str, str] = _NO_TEXTS
) -> T:
    """Returns the document of a request.  Raises BadBody; *texts*: see `api.routes.Body`."""
    if not data:
        raise errors.BadBody(why=texts.get("", "Request body can not be empty."))
    try:
        if not data.isascii():
            data.decode()  # the decoder does not check UTF-8 inside raw bodies
        document = decoder.decode(data)
    except msgspec.ValidationError as error:
        raise errors.BadBody(why=_invalid(str(error), texts)) from None
    except RecursionError:
        raise errors.BadBody(why="Request body: nested too deeply.") from None
    except _MALFORMED as error:
        raise errors.BadBody(
            why=f"Request body could not be parsed: {rules.json_problem(error, data)}."
        ) from None
    if isinstance(document, (msgspec.Struct, msgspec.Raw, dict, list)):
        return document
    raise errors.BadBody(why="Request body must be an object or an array.")


def _invalid(found: str, texts: Mapping[str, str]) -> str:
    """Returns the text of an error of the decoder: ``Expected `int`, got `str` - at `$.ttl` ``."""
    what, _, place = found.partition(" - at ")
    missing = _MISSING.fullmatch(what)
    wrong = place.strip("`") or (missing[1] if missing else "$")
    return texts.get(wrong, f"Request body: {found}.")


def _checksum(body: bytes) -> bytes:
    """Returns the checksum.  API: MD5 of the body as Python's json writes it."""
    try:
        text = json.dumps(json.loads(body)).encode()
    except (ValueError, RecursionError):  # Python's json has limits of its own
        raise errors.BadBody(
            why='Request body: a "body" holds too long a number, or is nested too deeply.'
        ) from None
    return hashlib.md5(text, usedforsecurity=False).digest()
