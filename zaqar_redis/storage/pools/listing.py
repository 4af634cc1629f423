# SPDX-License-Identifier: Apache-2.0
"""Lists the queues of a project over its stores: by name, as if they were in one."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Sequence

from zaqar_redis import errors
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import Page, Queue
from zaqar_redis.storage.contract import Store
from zaqar_redis.storage.control import Catalogue

#: Names that are read from the catalogue at once.
_NAMES = 100


class Cursor(ComposedVerbs):
    """A cursor over the queues of one store, with those that were read."""

    def __init__(self, driver: Store, after: str, *, topics: bool = False) -> None:
        self._driver = driver
        self._topics = topics
        self.after = after
        self.has_more = True
        self.queues: list[Queue] = []

    @verb
    def read(self, project: str, limit: int, wanted: Callable[[Queue], bool] | None) -> Steps[None]:
        page = yield self._driver.queues.list(
            project, self.after, limit, wanted, topics=self._topics
        )
        self.queues += page.items
        self.has_more = len(page.items) == limit
        self.after = page.marker


class PartialCursor(Cursor):
    """The same, over the catalogue when the store cannot be read."""

    def __init__(
        self, driver: Store | None, after: str, name: str, catalogue: Catalogue, *, topics: bool
    ) -> None:
        """*driver*: None when the store cannot be opened."""
        super().__init__(driver, after, topics=topics)  # type: ignore[arg-type]  # None is never read
        self.name = name
        self.is_unavailable = driver is None
        self._catalogue = catalogue

    @verb
    def read(self, project: str, limit: int, wanted: Callable[[Queue], bool] | None) -> Steps[None]:
        if not self.is_unavailable:
            try:
                yield super().read(project, limit, wanted)
            except errors.Unavailable:
                self.is_unavailable = True
            else:
                return
        # Names are small: fewer round trips when only some are wanted.
        page: Page[str] = yield self._catalogue.names(
            project, self.name, self.after, max(limit, _NAMES), topics=self._topics
        )
        found = (Queue(name, {}, unavailable=self.name) for name in page.items)
        self.queues += [queue for queue in found if wanted is None or wanted(queue)]
        self.has_more = page.marker != ""
        self.after = page.marker


def merged_page(
    cursors: Sequence[Cursor],
    project: str,
    limit: int,
    wanted: Callable[[Queue], bool] | None,
) -> Steps[Page[Queue]]:
    # Read each store's share of the page, and a little more: a full page of each would
    # be as many times too much as there are stores.
    share = min(limit, 2 * limit // len(cursors) + 2)
    reading = cursors
    while True:
        yield [cursor.read(project, share, wanted) for cursor in reading]
        ends = [cursor.after for cursor in cursors if cursor.has_more]
        # Behind the lowest cursor there may be names that were not read yet.
        found = _merged(cursors, min(ends, default=None))
        if len(found) >= limit or not ends:
            found = found[:limit]
            return Page(items=found, marker=found[-1].name if found else "")
        reading = [cursor for cursor in cursors if cursor.has_more and cursor.after == min(ends)]


def _merged(cursors: Sequence[Cursor], upto: str | None) -> list[Queue]:
    """Returns the queues read, by name, each once: one that moves may be in two stores."""
    found: list[Queue] = []
    of_name = operator.attrgetter("name")
    for queue in heapq.merge(*(cursor.queues for cursor in cursors), key=of_name):
        if upto is not None and queue.name > upto:
            break
        if not found or found[-1].name != queue.name:
            found.append(queue)
    return found
