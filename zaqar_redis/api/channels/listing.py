# SPDX-License-Identifier: Apache-2.0
"""Channels with subscribers and their rates, for the console and for commands."""

from __future__ import annotations

import glob
from functools import partial

import msgspec
from msgspec import Struct

from zaqar_redis.api.api_key import ApiKeyChecks
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.service.channels import ChannelService, resource

#: The rule of the method of the server API that lists the same channels.
_ACTION = "channels:channels"


class ChannelsQuery(Struct, frozen=True, kw_only=True):
    #: a name
    channel: str | None = None
    #: a glob
    pattern: str | None = None


class ChannelListHandlers:
    def __init__(self, node: Node, project: str, checks: ApiKeyChecks) -> None:
        self._context = ProjectContext(node, project)
        self._checks = checks

    async def list_channels(self, request: Request[ChannelsQuery, None]) -> Answer:
        """Channels with subscribers, and how many publications a second each of them has."""
        channel, pattern = request.query.channel or "", request.query.pattern or ""
        authorize = partial(self._checks.authorize, request)
        authorize(_ACTION, resource(channel))
        channels = ChannelService(self._context.for_project(request.project), authorize)
        found = await channels.figures(glob.escape(channel) or pattern)
        content = msgspec.json.encode({"channels": found})
        return Answer(content, headers=(("cache-control", "no-store"),))


def routes(node: Node, project: str, checks: ApiKeyChecks) -> list[ApiRoute]:
    list_channels = ChannelListHandlers(node, project, checks).list_channels
    row = partial(ApiRoute, "GET", public=True, checked=False, guard=checks.admit)
    return [row("/console/channels", list_channels, _ACTION, query=ChannelsQuery)]
