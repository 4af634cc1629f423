# SPDX-License-Identifier: Apache-2.0
"""The world's own server: it serves the page, signs tokens, and sends messages to players.

Movements never pass through it: pages and bots send them over their nodes' channels.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import jwt
from aiohttp import web

from examples.grid.nodes import Keys
from examples.grid.players import SPECTATOR, Player, arriving, player_of, token_of
from examples.grid.routing import RoutingClient, RoutingFailed
from examples.grid.world import World, rules

LOG = logging.getLogger(__name__)

_PAGE = Path(__file__).parent / "page"
#: Unchanged, as npm installs it.
_SDK = Path(__file__).parents[2] / "node_modules" / "centrifuge" / "dist" / "centrifuge.js"
#: Seconds between two broadcasts of how many are there.
_CENSUS_SECONDS = 2.0
#: Characters of a shout: it is one line on a phone.
_SHOUT_MAX = 60


class SdkMissing(Exception):
    """centrifuge-js is not installed."""


class WorldServer:
    """*nodes*: the ports that the players connect to."""

    def __init__(self, world: World, keys: Keys, nodes: Sequence[int]) -> None:
        self._rules = rules(world)
        self._keys = keys
        self._nodes = nodes

    def application(self) -> web.Application:
        """Returns the web application.  Raises SdkMissing."""
        if not _SDK.exists():
            raise SdkMissing(f"{_SDK} is missing: tools/console-assets installs it, with npm")
        application = web.Application()
        application.add_routes(
            [
                web.get("/", self._index),
                web.get("/centrifuge.js", self._sdk),
                web.post("/session", self._session),
                web.post("/arrive", self._arrive),
                web.post("/shout", self._shout),
                web.static("/page", _PAGE),
            ]
        )
        application.cleanup_ctx.append(self._speaking)
        return application

    async def _index(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(_PAGE / "index.html")

    async def _sdk(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(_SDK)

    async def _session(self, request: web.Request) -> web.Response:
        """Makes a player of a visitor: a name, a token, and the address of a node."""
        asked = await request.json()
        node = asked.get("node")
        if node not in range(1, len(self._nodes) + 1):
            raise web.HTTPBadRequest(text=f"node must be 1 to {len(self._nodes)}")
        player = arriving(asked.get("team"), is_spectator=asked.get("watch") is True)
        return web.json_response(
            {
                "user": player.user,
                "team": player.team,
                "token": token_of(player, self._keys.token),
                "url": f"ws://127.0.0.1:{self._nodes[node - 1]}/connection/websocket",
                "rules": self._rules,
            }
        )

    async def _arrive(self, request: web.Request) -> web.Response:
        """A page has connected: it hears its team, and its user is greeted."""
        asked = await request.json()
        player = self._player(asked)
        text = f"Welcome, {player.user}: your team is {player.team}. Press Enter to shout to it."
        with _refused():
            await self._routing.join(str(asked.get("client")), player.topic)
            await self._routing.send("user", player.user, "greeting", {"text": text})
        return web.Response(status=204)

    async def _shout(self, request: web.Request) -> web.Response:
        asked = await request.json()
        player = self._player(asked)
        said = {"user": player.user, "text": str(asked.get("text"))[:_SHOUT_MAX]}
        with _refused():
            await self._routing.send("topic", player.topic, "shout", said)
        return web.Response(status=204)

    def _player(self, asked: dict[str, object]) -> Player:
        try:
            return player_of(str(asked.get("token")), self._keys.token)
        except jwt.InvalidTokenError as error:
            raise web.HTTPForbidden(text=f"the token is not valid: {error}") from error

    async def _speaking(self, application: web.Application) -> AsyncIterator[None]:
        self._routing = RoutingClient(f"http://127.0.0.1:{self._nodes[0]}", self._keys.api)
        census = asyncio.create_task(self._count())
        yield
        census.cancel()
        await asyncio.wait([census])
        await self._routing.close()

    async def _count(self) -> None:
        """Tells everybody how many are there, and spectators at which nodes."""
        while True:
            await asyncio.sleep(_CENSUS_SECONDS)
            try:
                nodes = await self._routing.connections()
                await self._routing.send("broadcast", "", "census", {"count": sum(nodes.values())})
                await self._routing.send("role", SPECTATOR, "nodes", {"nodes": nodes})
            except RoutingFailed as error:
                LOG.warning("the census was not sent: %s", error)


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Answers 502 for what a node refuses."""
    try:
        yield
    except RoutingFailed as error:
        LOG.warning("%s", error)
        raise web.HTTPBadGateway(text=str(error)) from error
