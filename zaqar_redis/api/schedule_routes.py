# SPDX-License-Identifier: Apache-2.0
"""The rows of the table of routes that are about recurring posts."""

from __future__ import annotations

from collections.abc import Iterator

from zaqar_redis import errors, rules
from zaqar_redis.api import schedule_schemas as schemas
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.queries import PageQuery
from zaqar_redis.api.rest.schedules import ScheduleHandlers
from zaqar_redis.api.routes import ApiRoute, delete, get, put


def schedule_routes(of: ScheduleHandlers, limits: rules.Limits) -> Iterator[ApiRoute]:
    every, one = "/v2/schedules", "/v2/schedules/{schedule}"
    shown, page = {200: schemas.ScheduleOut}, {200: schemas.SchedulePageOut}
    put_in = {**shown, 201: schemas.ScheduleOut}
    new = Body(schemas.ScheduleIn, "A schedule")
    yield get(every, of.list, "schedules:get_all", query=PageQuery, answers=page)
    yield get(one, of.get, "schedules:get", answers=shown, problems=(errors.NotFound,))
    yield put(one, of.put, "schedules:create", body=new, answers=put_in)
    yield delete(one, of.delete, "schedules:delete")
