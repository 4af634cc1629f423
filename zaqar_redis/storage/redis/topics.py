# SPDX-License-Identifier: Apache-2.0
"""Topics in Redis."""

from __future__ import annotations

from typing import Any

import msgspec

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import RedisCommand, Script, Steps, verb
from zaqar_redis.records import Page, Topic

_CREATE = Script("topic_create")
_UPDATE = Script("topic_update")
_DELETE = Script("topic_delete")
_LIST = Script("topic_list")


class RedisTopics:
    def __init__(self, client: Any) -> None:
        self.client = client

    @verb
    def create(self, project: str, topic: str, metadata: dict[str, Any]) -> Steps[bool]:
        created = yield _CREATE(
            keys.TopicKeys(project), topic=topic, metadata=msgspec.json.encode(metadata)
        )
        return bool(created)

    @verb
    def get(self, project: str, topic: str) -> Steps[dict[str, Any] | None]:
        metadata = yield RedisCommand("HGET", keys.TopicKeys(project).topics, topic)
        return None if metadata is None else msgspec.json.decode(metadata)

    @verb
    def update(self, project: str, topic: str, metadata: dict[str, Any]) -> Steps[bool]:
        updated = yield _UPDATE(
            keys.TopicKeys(project), topic=topic, metadata=msgspec.json.encode(metadata)
        )
        return bool(updated)

    @verb
    def delete(self, project: str, topic: str) -> Steps[None]:
        yield _DELETE(keys.TopicKeys(project), topic=topic)

    @verb
    def list(self, project: str, after: str, limit: int) -> Steps[Page[Topic]]:
        flat = yield _LIST(keys.TopicKeys(project), after=after, limit=limit)
        found = [
            Topic(name=name.decode(), metadata=msgspec.json.decode(metadata))
            for name, metadata in zip(flat[::2], flat[1::2], strict=True)
        ]
        return Page(items=found, marker=found[-1].name if found else "")
