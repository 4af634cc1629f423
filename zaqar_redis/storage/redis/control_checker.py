# SPDX-License-Identifier: Apache-2.0
"""The checker of a control store: the catalogue, and the lists and counts derived from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection
from typing import Any

from zaqar_redis.check_records import CheckResult, Finding
from zaqar_redis.keyspace import control_keys, keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import Script

_POOL_LISTING = Script("check_pool_listing")
_LISTED = Script("check_listed")
_COUNT = Script("check_count")

#: Queues checked in one script: some milliseconds.
_PAGE = 500


class RedisControlChecker:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def check(self, pools: Collection[str], repair: bool) -> AsyncIterator[CheckResult]:
        """Yields the findings.  *pools* are all pools, the default pool included."""
        flag = int(repair)
        for pool in pools:
            async for checked in self._pool_listing(pool, flag):
                yield checked
        counted: set[tuple[str, str]] = set()
        cursor: Any = b"0"
        while True:
            cursor, flat = await self._client.command(
                "HSCAN", control_keys.CONTROL.catalogue, cursor, "COUNT", _PAGE
            )
            by_pool: dict[str, list[bytes]] = defaultdict(list)
            for entry, pool in zip(flat[::2], flat[1::2], strict=True):
                by_pool[pool.decode()].append(entry)
            for pool, entries in by_pool.items():
                counted.update((keys.queue_of(entry)[0], pool) for entry in entries)
                async for checked in self._entries(pool, entries, pool in pools, flag):
                    yield checked
            if cursor == b"0":
                break
        for project, pool in sorted(counted):
            noted, found = await self._client.call(
                _COUNT(
                    control_keys.CatalogueKeys(project, pool),
                    pool=pool,
                    id=keys.entry(project, "").removesuffix(b"/"),
                    repair=flag,
                )
            )
            if noted != found:
                what = f"the catalogue has {found} of its queues in this pool, but counts {noted}"
                yield CheckResult(project, store=pool, findings=(Finding(what, mended=repair),))

    async def _pool_listing(self, pool: str, flag: int) -> AsyncIterator[CheckResult]:
        of_pool = control_keys.CatalogueKeys("", pool)
        after: Any = b""
        while True:
            after, wrong = await self._client.call(
                _POOL_LISTING(of_pool, pool=pool, after=after, limit=_PAGE, repair=flag)
            )
            for entry, current_pool in zip(wrong[::2], wrong[1::2], strict=True):
                other = (
                    f"has it in {current_pool.decode()}" if current_pool else "has no entry for it"
                )
                what = f"it is listed for {pool}, but the catalogue {other}"
                yield _checked(entry, pool, Finding(what, mended=bool(flag)))
            if not after:
                return

    async def _entries(
        self, pool: str, entries: list[bytes], known: bool, flag: int
    ) -> AsyncIterator[CheckResult]:
        if not known:
            for entry in entries:
                what = f"the catalogue has it in {pool}, and there is no such pool"
                yield _checked(entry, pool, Finding(what))
            return
        of_pool = control_keys.CatalogueKeys("", pool)
        for entry in await self._client.call(_LISTED(of_pool, *entries, pool=pool, repair=flag)):
            what = f"the catalogue has it in {pool}, where it is not listed"
            yield _checked(entry, pool, Finding(what, mended=bool(flag)))


def _checked(entry: bytes, pool: str, finding: Finding) -> CheckResult:
    project, queue = keys.queue_of(entry)
    return CheckResult(project, queue, pool, findings=(finding,))
