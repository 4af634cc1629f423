# SPDX-License-Identifier: Apache-2.0
"""Fields of a message that are stored among its attributes, under reserved names.

So they go wherever attributes go: into archives and backups, to Spark, to subscriptions and their
filters, to dead-letter queues and back.  `traceparent` is another such attribute.
"""

from __future__ import annotations

import binascii
import contextlib
import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.records import Attributes, NewMessage

GROUP, PRIORITY, DEDUP_ID = "_group", "_priority", "_dedup_id"
#: Of a dead letter: for which it was given back last.
REASON = "_reason"
#: The media type of a body, and `BASE64` if it is bytes.  With a type the stored JSON is a string:
#: the text, or the bytes in base64.  Without one a body is any JSON.
CONTENT_TYPE, BODY_ENCODING = "_content_type", "_body_encoding"
BASE64 = "base64"
JSON = "application/json"
OF_BODY = {CONTENT_TYPE: "content_type", BODY_ENCODING: "body_encoding"}
#: A field's name in documents, by that of its attribute.
FIELDS = {PRIORITY: "priority", GROUP: "group", DEDUP_ID: "dedup_id", REASON: "reason"} | OF_BODY
#: Bytes: those of a MessageGroupId of SQS, which is ASCII.
GROUP_MAX = 128
PRIORITY_MAX = 31
#: Bytes: those of a MessageDeduplicationId of SQS.
DEDUP_ID_MAX = 128
#: Bytes: the beginning of an error's text.
REASON_MAX = 256
CONTENT_TYPE_MAX = 128
#: RFC 9110, 8.3.1; only ASCII, as it becomes a header again.
_NAME = r"[!#$%&'+.^_`|~0-9A-Za-z-]+"
_MEDIA_TYPE = re.compile(rf'{_NAME}/{_NAME}(?: *; *{_NAME}=(?:{_NAME}|"[ !#-\[\]-~]*"))*')
#: Bytes that JSON writes as six characters; SQS takes none of them for text either.
_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_text = msgspec.json.Decoder(str).decode
_TEXTS = {GROUP: GROUP_MAX, DEDUP_ID: DEDUP_ID_MAX, REASON: REASON_MAX}


def first(attributes: Attributes) -> Attributes:
    """Returns attributes with the fields first, where Lua looks for them."""
    found = {name: attributes[name] for name in FIELDS if name in attributes}
    return {**found, **attributes} if found else attributes


def shown(attributes: Attributes) -> dict[str, Any]:
    """Returns the fields that a message has, by their names in documents."""
    return {field: attributes[name] for name, field in FIELDS.items() if name in attributes}


def is_text(value: object, most: int) -> bool:
    """Returns whether a value is 1 to *most* bytes of printable text."""
    return isinstance(value, str) and value.isprintable() and 0 < len(value.encode()) <= most


def check(attributes: Attributes) -> None:
    """Raises BadRequest."""
    for name, most in _TEXTS.items():
        text = attributes.get(name, "x")
        if not is_text(text, most):
            raise errors.BadRequest(
                why=f'"{FIELDS[name]}" must be 1 to {most} bytes of printable text.'
            )
    priority = attributes.get(PRIORITY, 0)
    if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
        raise errors.BadRequest(why=f'"priority" must be an integer from 0 to {PRIORITY_MAX}.')
    kind = attributes.get(CONTENT_TYPE, "a/b")
    if not (
        isinstance(kind, str) and len(kind) <= CONTENT_TYPE_MAX and _MEDIA_TYPE.fullmatch(kind)
    ):
        raise errors.BadRequest(
            why='"content_type" must be a media type, such as text/plain, of at most '
            f"{CONTENT_TYPE_MAX} ASCII characters."
        )
    if attributes.get(BODY_ENCODING, BASE64) != BASE64:
        raise errors.BadRequest(why=f'"body_encoding" must be "{BASE64}", or absent.')
    if BODY_ENCODING in attributes and CONTENT_TYPE not in attributes:
        raise errors.BadRequest(why='"body_encoding" needs a "content_type".')


def decoded(attributes: Attributes, body: bytes) -> bytes:
    """Returns the JSON, text or bytes that a body is which is not encrypted.

    Raises BadRequest when it is not what checked attributes say.
    """
    if CONTENT_TYPE not in attributes:
        return body
    try:
        text = _text(body)
        if BODY_ENCODING in attributes:
            return binascii.a2b_base64(text, strict_mode=True)
        return text.encode()
    except ValueError:
        must_be = 'a string: it has a "content_type".'
        if BODY_ENCODING in attributes:
            must_be = 'base64, with padding: it has a "body_encoding".'
        raise errors.BadRequest(why=f'"body" must be {must_be}') from None


def exact(attributes: Attributes, body: bytes) -> tuple[bytes, str]:
    """Returns the JSON, text or bytes that a body is which is not encrypted, and its type."""
    if CONTENT_TYPE in attributes:
        # Else a release has posted it that did not know the fields.
        with contextlib.suppress(errors.BadRequest):
            check(attributes)
            return decoded(attributes, body), str(attributes[CONTENT_TYPE])
    return body, JSON


def in_document(data: bytes, content_type: str) -> dict[str, str]:
    """Returns the fields of a document's message with an exact body.

    What is UTF-8 is text whatever its type, unless it has control characters.
    """
    fields = {"content_type": content_type}
    try:
        if not _CONTROLS.search(data):
            return {"body": data.decode()} | fields
    except UnicodeDecodeError:
        pass
    return {
        "body": binascii.b2a_base64(data, newline=False).decode(),
        **fields,
        "body_encoding": BASE64,
    }


def dedup_name(message: NewMessage) -> str:
    """Returns that by which a queue recognises a message that is repeated; empty: nothing."""
    return message.dedup or str((message.attributes or {}).get(DEDUP_ID, ""))


def identified(drafts: Sequence[NewMessage], plain: Sequence[NewMessage]) -> list[NewMessage]:
    """Returns drafts that the bodies of *plain*, the same before encryption, identify.

    Those with a dedup id keep it.  As in SQS, the others have the SHA-256 of the body for one.
    """
    return [
        msgspec.structs.replace(
            draft,
            dedup=dedup_name(draft)
            or hashlib.sha256(exact(given.attributes or {}, given.body)[0]).hexdigest(),
        )
        for draft, given in zip(drafts, plain, strict=True)
    ]
