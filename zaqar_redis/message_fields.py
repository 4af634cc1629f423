# SPDX-License-Identifier: Apache-2.0
"""Fields of a message that are stored among its attributes, under reserved names.

So they go wherever attributes go: into archives and backups, to Spark, to subscriptions and their
filters, to dead-letter queues and back.  `traceparent` is another such attribute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.records import Attributes, NewMessage

GROUP, PRIORITY, DEDUP_ID = "_group", "_priority", "_dedup_id"
#: Of a dead letter: for which it was given back last.
REASON = "_reason"
#: A field's name in documents, by that of its attribute.
FIELDS = {PRIORITY: "priority", GROUP: "group", DEDUP_ID: "dedup_id", REASON: "reason"}
#: Bytes: those of a MessageGroupId of SQS, which is ASCII.
GROUP_MAX = 128
PRIORITY_MAX = 31
#: Bytes: those of a MessageDeduplicationId of SQS.
DEDUP_ID_MAX = 128
#: Bytes: the beginning of an error's text.
REASON_MAX = 256
_TEXTS = {GROUP: GROUP_MAX, DEDUP_ID: DEDUP_ID_MAX, REASON: REASON_MAX}


def with_fields(
    attributes: Attributes,
    *,
    group: str | None = None,
    priority: int | None = None,
    dedup_id: str | None = None,
) -> Attributes:
    """Returns attributes with those fields that are not None."""
    given = {GROUP: group, PRIORITY: priority, DEDUP_ID: dedup_id}
    return {**attributes, **{name: value for name, value in given.items() if value is not None}}


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


def dedup_name(message: NewMessage) -> str:
    """Returns that by which a queue recognises a message that is repeated; empty: nothing."""
    return message.dedup or str((message.attributes or {}).get(DEDUP_ID, ""))


def identified(drafts: Sequence[NewMessage], plain: Sequence[NewMessage]) -> list[NewMessage]:
    """Returns drafts that the bodies of *plain*, the same before encryption, identify.

    Those with a dedup id keep it.  As in SQS, the others have the SHA-256 of the body for one.
    """
    return [
        msgspec.structs.replace(
            draft, dedup=dedup_name(draft) or hashlib.sha256(given.body).hexdigest()
        )
        for draft, given in zip(drafts, plain, strict=True)
    ]
