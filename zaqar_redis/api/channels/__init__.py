# SPDX-License-Identifier: Apache-2.0
"""The doors of channels: what SDKs connect to."""

from __future__ import annotations

from typing import Any

import msgspec

from zaqar_redis.api.channels.websocket import PATH, Receive, Send, WebSocket
from zaqar_redis.auth import tokens
from zaqar_redis.realtime import world
from zaqar_redis.realtime.engine import Engine
from zaqar_redis.realtime.namespaces import Namespaces
from zaqar_redis.realtime.node import Node


class Settings(msgspec.Struct, frozen=True):
    namespaces: Namespaces
    tokens: tokens.Settings
    session: world.Settings
    #: globs of the origins of pages that may connect
    allowed_origins: tuple[str, ...]
    project: str


class Channels:
    """What is below ``/connection``, over one engine."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.node = Node(
            engine, settings.session, settings.namespaces, tokens.Verifier(settings.tokens)
        )
        self._websocket = WebSocket(self.node, settings.allowed_origins, settings.project)

    async def start(self) -> None:
        await self.node.start()

    async def close(self) -> None:
        await self.node.close()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["path"] == PATH:
            await self._websocket(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close"})
