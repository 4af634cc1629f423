# SPDX-License-Identifier: Apache-2.0
"""Messages with groups and priorities, posted and claimed by short texts."""

from __future__ import annotations

import re
from typing import Any

from tests.support.stores import TTL, ContractStore, names
from zaqar_redis import message_fields
from zaqar_redis.records import Attributes, NewMessage

_IN_A_GROUP = re.compile(r"([a-z]+)\d+")


def post(store: ContractStore, *labelled: str, **more: Any) -> tuple[str, ...]:
    """Posts messages such as "a1" of the group a, or "first:7" of the priority 7, or "a1:7"."""
    messages = []
    for text in labelled:
        body, _, priority = text.partition(":")
        found = _IN_A_GROUP.fullmatch(body)
        attributes: Attributes = {message_fields.GROUP: found[1]} if found else {}
        if priority:
            attributes = {**attributes, message_fields.PRIORITY: int(priority)}
        messages.append(
            NewMessage(body=b'"%b"' % body.encode(), ttl=TTL, attributes=attributes, **more)
        )
    return store.send(messages).ids


def claim(store: ContractStore, limit: int = 1, ttl: int = 60) -> tuple[list[str], str | None]:
    """Returns the texts of what was claimed, and the claim."""
    taken = store.claim(limit, ttl=ttl)
    return names(taken.messages), taken.claim_id


def update(store: ContractStore, **metadata: Any) -> None:
    assert store.run(store.driver.queues.update(store.project, store.existing_queue(), metadata))
