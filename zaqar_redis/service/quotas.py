# SPDX-License-Identifier: Apache-2.0
"""Quotas: what each project may use at most, for operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from zaqar_redis import errors, rules
from zaqar_redis.records import Quota
from zaqar_redis.storage.control import Quotas

_Limit = Meta(ge=-1, le=rules.INTEGER_MAX)


class QuotaSettings(Struct, frozen=True):
    """The quota of every project that has none of its own."""

    requests: Annotated[
        int,
        _Limit,
        "Requests a second of each project; -1 for no limit. Each worker has an equal share.",
    ] = -1
    queues: Annotated[int, _Limit, "Queues of each project; -1 for no limit."] = -1
    messages: Annotated[int, _Limit, "Stored messages of each project; -1 for no limit."] = -1
    bytes: Annotated[int, _Limit, "Bytes of stored messages of each project; -1 for no limit."] = -1
    sockets: Annotated[
        int, _Limit, "Open WebSockets and streams of each project; -1 for no limit."
    ] = -1

    def completed(self, own: Quota | None) -> Quota:
        """Returns the quota of a project, with all limits given.  *own*: None: it has none."""
        given = {} if own is None else msgspec.structs.asdict(own)
        defaults = msgspec.structs.asdict(self)
        return Quota(
            **{
                name: default if given.get(name) is None else given[name]
                for name, default in defaults.items()
            }
        )


class QuotaService:
    def __init__(self, store: Quotas, defaults: QuotaSettings) -> None:
        self._store = store
        self._defaults = defaults

    async def list(self, marker: str, limit: int) -> Sequence[tuple[str, Quota]]:
        """Returns up to *limit* projects behind *marker* that have a quota of their own."""
        quotas = await self._store.list()
        found = sorted(project for project in quotas if project > marker)[:limit]
        return [(project, self._defaults.completed(quotas[project])) for project in found]

    async def get(self, project: str) -> Quota:
        """Returns the quota of a project, with all limits given."""
        return self._defaults.completed(await self._store.get(project))

    async def put(self, project: str, quota: Quota) -> None:
        """Creates or replaces the quota of a project.  Raises BadRequest, LimitExceeded."""
        if not rules.project_id(project).isascii():
            raise errors.BadRequest(why="The project of a quota must be ASCII.")
        for name, limit in msgspec.structs.asdict(quota).items():
            if limit is not None:
                rules.within(name, limit, -1, rules.INTEGER_MAX)
        await self._store.put(project, quota)

    async def delete(self, project: str) -> None:
        """Deletes the quota of a project: it has that of the service's options.  Idempotent."""
        await self._store.delete(project)
