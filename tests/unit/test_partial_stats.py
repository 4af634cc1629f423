# SPDX-License-Identifier: Apache-2.0
"""A store that is lost between the listing of queues and their statistics."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from zaqar_redis import errors
from zaqar_redis.api.queries import QueueListQuery
from zaqar_redis.api.rest.queues import QueueHandlers
from zaqar_redis.records import PartialPage, Queue, Stats


class _Queues:
    """A service of queues whose statistics of *lost* cannot be read."""

    async def list(self, *_: Any, partial: bool) -> PartialPage:
        return PartialPage([Queue(name=name, metadata={}) for name in ("kept", "lost")])

    def shown(self, name: str, metadata: dict[str, Any]) -> dict[str, Any]:
        return metadata

    async def stats(self, project: str, name: str) -> Stats:
        if name == "lost":
            raise errors.StoreUnavailable(store="pool")
        return Stats(total=3)


def _listed(*, partial: bool) -> list[dict[str, Any]]:
    queues: Any = _Queues()
    policy: Any = SimpleNamespace(authorize=lambda *_: None)
    unused: Any = None
    handlers = QueueHandlers(queues, unused, unused, policy)
    request: Any = SimpleNamespace(
        project="p",
        identity=None,
        path="/v2/queues",
        query=QueueListQuery(with_stats=True, partial=partial),
    )

    async def answer() -> Any:
        return await handlers.list(request)

    found: list[dict[str, Any]] = json.loads(asyncio.run(answer()).body)["queues"]
    return found


def test_partial_listing_lacks_the_statistics_of_a_lost_store() -> None:
    kept, lost = _listed(partial=True)
    assert kept["stats"]["messages"]["total"] == 3
    assert (lost["name"], "stats" in lost) == ("lost", False)


def test_whole_listing_with_statistics_of_a_lost_store_fails() -> None:
    with pytest.raises(errors.StoreUnavailable):
        _listed(partial=False)
