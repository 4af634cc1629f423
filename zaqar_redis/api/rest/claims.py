# SPDX-License-Identifier: Apache-2.0
"""/v2/queues/{queue}/claims."""

from __future__ import annotations

from falcon.asgi import Request, Response

from zaqar_redis.api import body, documents
from zaqar_redis.service.claims import ClaimService


class ClaimCollection:
    def __init__(self, claims: ClaimService) -> None:
        self._claims = claims

    async def on_post(self, req: Request, resp: Response, queue: str) -> None:
        limit = req.get_param_as_int("limit")
        wait = req.get_param_as_int("wait")
        requested = documents.claim(await body.read(req, body.SMALL, "A claim"))
        async with body.watch_disconnect(req, bool(wait)) as disconnected:
            claimed = await self._claims.create(
                req.context.project,
                queue,
                ttl=requested.ttl,
                grace=requested.grace,
                limit=limit,
                wait=wait,
                disconnected=disconnected,
            )
        if claimed.claim_id is None:
            resp.status = 204
            return
        resp.status = 201
        resp.set_header("Location", f"/v2/queues/{queue}/claims/{claimed.claim_id}")
        resp.data = documents.messages(queue, claimed.messages)


class ClaimItem:
    def __init__(self, claims: ClaimService) -> None:
        self._claims = claims

    async def on_get(self, req: Request, resp: Response, queue: str, claim: str) -> None:
        found = await self._claims.get(req.context.project, queue, claim)
        resp.data = documents.claimed(queue, found)

    async def on_patch(self, req: Request, resp: Response, queue: str, claim: str) -> None:
        data = await body.read(req, body.SMALL, "A claim")
        documents.require_body(data)
        requested = documents.claim(data)
        await self._claims.update(
            req.context.project, queue, claim, ttl=requested.ttl, grace=requested.grace
        )
        resp.status = 204

    async def on_delete(self, req: Request, resp: Response, queue: str, claim: str) -> None:
        await self._claims.delete(req.context.project, queue, claim)
        resp.status = 204
