# SPDX-License-Identifier: Apache-2.0
"""Hints from whichever store a queue lives in, also after it has moved."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from zaqar_redis import errors
from zaqar_redis.storage.driver import Driver, Hint
from zaqar_redis.storage.pooled.places import Places


class Feed:
    def __init__(self, places: Places) -> None:
        self._places = places
        self._watched: dict[tuple[str, str], dict[Hint, Driver]] = {}
        self._following: set[asyncio.Task[Any]] = set()
        places.moved = self._moved

    async def watch(self, project: str, queue: str, hint: Hint) -> None:
        driver = (await self._places.find(project, queue)).driver
        self._watched.setdefault((project, queue), {})[hint] = driver
        if driver.feed is not None:
            await driver.feed.watch(project, queue, hint)

    def unwatch(self, project: str, queue: str, hint: Hint) -> None:
        hints = self._watched.get((project, queue), {})
        driver = hints.pop(hint, None)
        if not hints:
            self._watched.pop((project, queue), None)
        if driver is not None and driver.feed is not None:
            driver.feed.unwatch(project, queue, hint)

    def _moved(self, project: str, queue: str) -> None:
        if (project, queue) in self._watched:
            task = asyncio.create_task(self._follow(project, queue))
            self._following.add(task)
            task.add_done_callback(self._following.discard)

    async def _follow(self, project: str, queue: str) -> None:
        for hint, before in tuple(self._watched.get((project, queue), {}).items()):
            # Who waits looks now and then anyway.
            with contextlib.suppress(errors.Unavailable):
                if (await self._places.find(project, queue)).driver is before:
                    continue
                if before.feed is not None:
                    before.feed.unwatch(project, queue, hint)
                await self.watch(project, queue, hint)
            hint(0)
