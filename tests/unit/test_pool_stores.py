# SPDX-License-Identifier: Apache-2.0
"""The list of pools that a process keeps."""

from __future__ import annotations

from typing import Any

from zaqar_redis.pool_records import Pool, PoolsSnapshot
from zaqar_redis.storage.pools.pool_stores import PoolStores


class _Changing:
    """The pools of a control store; a pool is added while the first list is on its way."""

    def __init__(self) -> None:
        self.stores: PoolStores[Any]
        self._names = ["old"]

    async def list(self) -> PoolsSnapshot:
        pools = [Pool(name=name, uri="memory://", weight=1) for name in self._names]
        found = PoolsSnapshot(len(self._names), tuple(pools))
        if len(self._names) == 1:
            self._names.append("new")
            self.stores.invalidate()  # as the control store notifies of it
        return found


class _Store:
    def route_dead_letters(self, post: object) -> None:
        pass


async def test_list_of_pools_that_changed_while_it_was_read_is_read_again() -> None:
    pools: Any = _Changing()
    default: Any = _Store()
    stores = pools.stores = PoolStores[Any](
        default,
        pools,
        lambda pool: default,
        lambda *_, **__: default,
        on_change=lambda: None,
        cache_ttl=60,
    )
    result = [list(await stores.pools()) for _ in range(2)]
    assert result == [["old"], ["old", "new"]]
