# SPDX-License-Identifier: Apache-2.0
"""/v2/queues/{queue}/messages."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from falcon.asgi import Request, Response

from zaqar_redis import errors, rules
from zaqar_redis.api import body, documents
from zaqar_redis.records import IdempotencyKey
from zaqar_redis.service.messages import MessageService


class MessageCollection:
    def __init__(self, messages: MessageService, limits: rules.Limits, checksums: bool) -> None:
        self._messages = messages
        self._limits = limits
        self._checksums = checksums

    async def on_post(self, req: Request, resp: Response, queue: str) -> None:
        data = await body.read(req, self._limits.max_messages_post_size, "Messages")
        documents.require_body(data)
        posted = await self._messages.post(
            req.context.project,
            queue,
            documents.drafts(data, self._checksums),
            client=req.context.client,
            size=len(data),
            idempotency_key=self._idempotency_key(req, data),
        )
        resp.status = 201
        resp.set_header("Location", self._location(queue, posted.ids))
        resp.data = documents.posted(queue, posted.ids)
        if posted.replayed:
            resp.set_header("Idempotency-Replayed", "true")

    def _location(self, queue: str, ids: Sequence[str]) -> str:
        """Returns a path to read all ids at once, or that of all messages when they are too many.

        A header with every id of a large post is longer than HTTP clients accept.
        """
        path = f"/v2/queues/{queue}/messages"
        return (
            f"{path}?ids={','.join(ids)}"
            if len(ids) <= self._limits.max_messages_per_page
            else path
        )

    def _idempotency_key(self, req: Request, data: bytes) -> IdempotencyKey | None:
        key = req.get_header("Idempotency-Key")
        if key is None:
            return None
        return IdempotencyKey(
            key=rules.idempotency_key(key),
            fingerprint=hashlib.blake2b(data, digest_size=16).digest(),
            window=self._limits.idempotency_window * 1000,
        )

    async def on_get(self, req: Request, resp: Response, queue: str) -> None:
        ids = req.get_param_as_list("ids", delimiter=",")
        if ids is not None:
            await self._get_many(req, resp, queue, ids)
            return
        given: dict[str, Any] = {
            "marker": req.get_param("marker"),
            "limit": req.get_param_as_int("limit"),
            "echo": req.get_param_as_bool("echo"),
            "include_claimed": req.get_param_as_bool("include_claimed"),
            "include_delayed": req.get_param_as_bool("include_delayed"),
        }
        wait = req.get_param_as_int("wait")
        async with body.watch_disconnect(req, bool(wait)) as disconnected:
            page = await self._messages.list(
                req.context.project,
                queue,
                client=req.context.client,
                marker=given["marker"],
                limit=given["limit"],
                echo=bool(given["echo"]),
                include_claimed=bool(given["include_claimed"]),
                include_delayed=bool(given["include_delayed"]),
                wait=wait,
                disconnected=disconnected,
            )
        links = documents.next_link(req.path, given, page.marker)
        resp.data = documents.message_page(queue, page.items, links)

    async def _get_many(self, req: Request, resp: Response, queue: str, ids: list[str]) -> None:
        found = await self._messages.get(req.context.project, queue, ids)
        if not found:
            raise errors.NotFound(why=f"None of these messages is in the queue {queue}.")
        resp.data = documents.messages(queue, found)

    async def on_delete(self, req: Request, resp: Response, queue: str) -> None:
        ids = req.get_param_as_list("ids", delimiter=",")
        pop = req.get_param_as_int("pop")
        claims = None
        if self._limits.message_delete_with_claim_id:
            claims = req.get_param_as_list("claim_ids", delimiter=",")
            if (ids is None) != (claims is None):
                raise errors.BadRequest(why='"ids" and "claim_ids" must be given together.')
        if (ids is None) == (pop is None):
            raise errors.BadRequest(why='Either "ids" or "pop" must be given, and not both.')
        if pop is not None:
            popped = await self._messages.pop(req.context.project, queue, pop)
            resp.data = documents.popped(popped)
        else:
            await self._messages.delete_many(req.context.project, queue, ids or [], claims)
            resp.status = 204


class MessageItem:
    def __init__(self, messages: MessageService) -> None:
        self._messages = messages

    async def on_get(self, req: Request, resp: Response, queue: str, message: str) -> None:
        found = await self._messages.get(req.context.project, queue, [message])
        if not found:
            raise errors.NotFound(why=f"Message {message} is not in the queue {queue}.")
        resp.data = documents.message(queue, found[0])

    async def on_delete(self, req: Request, resp: Response, queue: str, message: str) -> None:
        claim = req.get_param("claim_id")
        await self._messages.delete(req.context.project, queue, message, claim)
        resp.status = 204
