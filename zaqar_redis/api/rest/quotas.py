# SPDX-License-Identifier: Apache-2.0
"""/v2/quotas."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from zaqar_redis import rules
from zaqar_redis.api import documents
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.operator_schemas import QuotaIn, QuotaOut, QuotaPageOut, UsageOut
from zaqar_redis.api.queries import PageQuery
from zaqar_redis.records import Quota
from zaqar_redis.service.quota_enforcer import QuotaEnforcer
from zaqar_redis.service.quotas import QuotaService


class QuotaHandlers:
    def __init__(self, quotas: QuotaService, enforcer: QuotaEnforcer, limits: rules.Limits) -> None:
        self._quotas = quotas
        self._enforcer = enforcer
        self._limits = limits

    async def list(self, request: Request[PageQuery, None]) -> Answer:
        """Lists the projects that have a quota of their own, by name."""
        query = request.query
        limit = rules.limit(query.limit, self._limits.max_queues_per_page)
        found = await self._quotas.list(query.marker or "", limit)
        links = documents.next_link(request.path, query, found[-1][0] if found else "")
        items = [_quota(project, quota) for project, quota in found]
        return Answer(documents.encode(QuotaPageOut(items, links)))

    async def get(self, request: Request[None, None], project: str) -> Answer:
        """Shows the quota of a project, and what it uses.

        A project may see its own.
        """
        return Answer(documents.encode(await self._shown(project)))

    async def put(self, request: Request[None, QuotaIn], project: str) -> Answer:
        """Creates or replaces the quota of a project.

        Every worker knows it within five seconds.  What is stored beyond it stays.
        """
        await self._quotas.put(project, Quota(**msgspec.structs.asdict(request.document)))
        return Answer(documents.encode(await self._shown(project)))

    async def delete(self, request: Request[None, None], project: str) -> Answer:
        """Removes the quota of a project: the one that the service's options set applies."""
        await self._quotas.delete(project)
        return DONE

    async def _shown(self, project: str) -> QuotaOut:
        document = _quota(project, await self._quotas.get(project))
        stored = await self._enforcer.usage(project)
        document.usage = UsageOut(*stored, sockets=self._enforcer.sockets(project))
        return document


def _quota(project: str, quota: Quota) -> QuotaOut:
    limits = msgspec.structs.asdict(quota)
    return QuotaOut(project=project, href=f"/v2/quotas/{quote(project)}", **limits)
