# SPDX-License-Identifier: Apache-2.0
"""Fields of a message that are stored among its attributes, under reserved names.

So they go wherever attributes go: into archives and backups, to Spark, to subscriptions and their
filters, to dead-letter queues and back.  `traceparent` is another such attribute.
"""

from __future__ import annotations

from typing import Any

from zaqar_redis import errors
from zaqar_redis.records import Attributes

GROUP, PRIORITY = "_group", "_priority"
#: A field's name in documents, by that of its attribute.
FIELDS = {PRIORITY: "priority", GROUP: "group"}
#: Bytes: those of a MessageGroupId of SQS, which is ASCII.
GROUP_MAX = 128
PRIORITY_MAX = 31


def with_fields(attributes: Attributes, group: str | None, priority: int | None) -> Attributes:
    """Returns attributes with the fields that are not None, which come first."""
    given: dict[str, Any] = {}
    if priority is not None:
        given[PRIORITY] = priority
    if group is not None:
        given[GROUP] = group
    return {**attributes, **given}


def first(attributes: Attributes) -> Attributes:
    """Returns attributes with the fields first, where Lua looks for them."""
    found = {name: attributes[name] for name in FIELDS if name in attributes}
    return {**found, **attributes} if found else attributes


def shown(attributes: Attributes) -> dict[str, Any]:
    """Returns the fields that a message has, by their names in documents."""
    return {field: attributes[name] for name, field in FIELDS.items() if name in attributes}


def check(attributes: Attributes) -> None:
    """Raises BadRequest."""
    group, priority = attributes.get(GROUP, "x"), attributes.get(PRIORITY, 0)
    if not (
        isinstance(group, str) and group.isprintable() and 0 < len(group.encode()) <= GROUP_MAX
    ):
        raise errors.BadRequest(
            why=f'"group" must be 1 to {GROUP_MAX} bytes of text without control characters.'
        )
    if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
        raise errors.BadRequest(why=f'"priority" must be an integer from 0 to {PRIORITY_MAX}.')
