# SPDX-License-Identifier: Apache-2.0
"""Topics for stock Zaqar: queues with a prefix in their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis.records import Page, Queue
from zaqar_redis.rules import TOPIC_PREFIX
from zaqar_redis.zaqar_plugin.queues import QueueController, filtered
from zaqar_redis.zaqar_plugin.stores import run_verb


class TopicController(storage.Topic):
    def __init__(self, driver: Any) -> None:
        super().__init__(driver)
        self._queues: QueueController = driver.queue_controller

    def _list(
        self,
        project: str | None = None,
        kfilter: dict[str, Any] | None = None,
        marker: str | None = None,
        limit: int = storage.DEFAULT_TOPICS_PER_PAGE,
        detailed: bool = False,
        name: str | None = None,
    ) -> Iterator[Any]:
        def page(after: str, most: int) -> Page[Queue]:
            found = run_verb(
                self.driver.stores.queues.list(
                    project or "", _stored(after), most, None, topics=True
                )
            )
            # By the names that stock Zaqar knows.
            return Page(
                [Queue(each.name.removeprefix(TOPIC_PREFIX), each.metadata) for each in found.items]
            )

        return filtered(page, kfilter, marker, limit, detailed, name)

    def _get(self, name: str, project: str | None = None) -> dict[str, Any]:
        return self._queues._get(_stored(name), project)

    def get_metadata(self, name: str, project: str | None = None) -> dict[str, Any]:
        try:
            return self._queues.get_metadata(_stored(name), project)
        except storage_errors.QueueDoesNotExist:
            raise storage_errors.TopicDoesNotExist(name, project) from None

    def set_metadata(self, name: str, metadata: dict[str, Any], project: str | None = None) -> None:
        try:
            self._queues.set_metadata(_stored(name), metadata, project)
        except storage_errors.QueueDoesNotExist:
            raise storage_errors.TopicDoesNotExist(name, project) from None

    def _create(
        self, name: str, metadata: dict[str, Any] | None = None, project: str | None = None
    ) -> bool:
        return self._queues._create(_stored(name), metadata, project)

    def _exists(self, name: str, project: str | None = None) -> bool:
        return self._queues._exists(_stored(name), project)

    def _delete(self, name: str, project: str | None = None) -> None:
        self._queues._delete(_stored(name), project)

    def _stats(self, name: str, project: str | None = None) -> None:
        """Does nothing: the pipeline's stage counts the messages."""


def _stored(name: str) -> str:
    return f"{TOPIC_PREFIX}{name}"
