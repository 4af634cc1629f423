# SPDX-License-Identifier: Apache-2.0
"""Topics for stock Zaqar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis.records import Page, Topic
from zaqar_redis.zaqar_plugin.listing import filtered
from zaqar_redis.zaqar_plugin.stores import run_verb


class TopicController(storage.Topic):
    def _list(
        self,
        project: str | None = None,
        kfilter: dict[str, Any] | None = None,
        marker: str | None = None,
        limit: int = storage.DEFAULT_TOPICS_PER_PAGE,
        detailed: bool = False,
        name: str | None = None,
    ) -> Iterator[Any]:
        def page(after: str, most: int) -> Page[Topic]:
            return run_verb(self.driver.stores.default.topics.list(project or "", after, most))

        return filtered(page, kfilter, marker, limit, detailed, name)

    def _get(self, name: str, project: str | None = None) -> dict[str, Any]:
        return run_verb(self.driver.stores.default.topics.get(project or "", name)) or {}

    def get_metadata(self, name: str, project: str | None = None) -> dict[str, Any]:
        metadata = run_verb(self.driver.stores.default.topics.get(project or "", name))
        if metadata is None:
            raise storage_errors.TopicDoesNotExist(name, project)
        return metadata

    def set_metadata(self, name: str, metadata: dict[str, Any], project: str | None = None) -> None:
        if not run_verb(self.driver.stores.default.topics.update(project or "", name, metadata)):
            raise storage_errors.TopicDoesNotExist(name, project)

    def _create(
        self, name: str, metadata: dict[str, Any] | None = None, project: str | None = None
    ) -> bool:
        return run_verb(
            self.driver.stores.default.topics.create(project or "", name, metadata or {})
        )

    def _exists(self, name: str, project: str | None = None) -> bool:
        return run_verb(self.driver.stores.default.topics.get(project or "", name)) is not None

    def _delete(self, name: str, project: str | None = None) -> None:
        run_verb(self.driver.stores.default.topics.delete(project or "", name))

    def _stats(self, name: str, project: str | None = None) -> dict[str, Any]:
        if not self._exists(name, project):
            raise storage_errors.TopicDoesNotExist(name, project)
        return {"messages": {"total": 0, "claimed": 0, "free": 0}}
