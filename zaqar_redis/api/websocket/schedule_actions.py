# SPDX-License-Identifier: Apache-2.0
"""The rows of the table of actions that are about recurring posts."""

from __future__ import annotations

from msgspec import Raw

from zaqar_redis.api.queries import PageQuery
from zaqar_redis.api.rest.schedules import ScheduleHandlers
from zaqar_redis.api.websocket import schemas as docs
from zaqar_redis.api.websocket.actions import ActionResult, ActionRow
from zaqar_redis.api.websocket.frames import SocketRequest


class ScheduleActions:
    """They answer with the documents of the REST API."""

    def __init__(self, handlers: ScheduleHandlers) -> None:
        self._handlers = handlers

    def rows(self) -> list[ActionRow]:
        every, one = "/v2/schedules", "/v2/schedules/{schedule}"
        return [
            ("GET", every, self.schedule_list, PageQuery),
            ("PUT", one, self.schedule_create, docs.ScheduleCreateIn),
            ("GET", one, self.schedule_get, docs.ScheduleNameIn),
            ("DELETE", one, self.schedule_delete, docs.ScheduleNameIn),
        ]

    async def schedule_list(self, request: SocketRequest, body: PageQuery) -> ActionResult:
        request.query = body
        return ActionResult(Raw((await self._handlers.list(request)).body))

    async def schedule_create(
        self, request: SocketRequest, body: docs.ScheduleCreateIn
    ) -> ActionResult:
        request.document = body
        answer = await self._handlers.put(request, body.schedule)
        return ActionResult(Raw(answer.body), answer.status)

    async def schedule_get(self, request: SocketRequest, body: docs.ScheduleNameIn) -> ActionResult:
        return ActionResult(Raw((await self._handlers.get(request, body.schedule)).body))

    async def schedule_delete(
        self, request: SocketRequest, body: docs.ScheduleNameIn
    ) -> ActionResult:
        await self._handlers.delete(request, body.schedule)
        return ActionResult(f"Schedule {body.schedule} removed.", 204)
