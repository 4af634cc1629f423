# SPDX-License-Identifier: Apache-2.0
"""The application, for gunicorn; it tells how many requests have come to it by ASGI."""

from __future__ import annotations

import os
from typing import Any

from zaqar_redis import clock
from zaqar_redis.api.api_key import ApiKeySettings
from zaqar_redis.api.app import App
from zaqar_redis.api.channels import ChannelSettings, ChannelsFrontEnd
from zaqar_redis.api.composition import ServiceParts, compose
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.auth.access import Access
from zaqar_redis.auth.tokens import TokenSettings
from zaqar_redis.realtime.engines.memory import MemoryEngine
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces
from zaqar_redis.storage.redis import create

#: Environment variable with the URI of the store.
STORE = "ZAQAR_REDIS_TEST_STORE"
#: Its answer is the number of requests before.
CALLS = "/calls"
#: of the server API
KEY = "key"


class CountedApp(App):
    """The application of one worker."""

    _calls = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == CALLS:
            body = str(self._calls).encode()
            headers = [(b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        self._calls += scope["type"] == "http"
        await super().__call__(scope, receive, send)


def app() -> CountedApp:
    driver = create(os.environ[STORE], {})
    parts = ServiceParts(driver, channels=lambda access, queues: _channels(access))
    return CountedApp(compose(ApiSettings(), parts))


def _channels(access: Access) -> ChannelsFrontEnd:
    settings = ChannelSettings(
        namespaces=Namespaces(ChannelOptions(), {}),
        tokens=TokenSettings(),
        session=SessionSettings(),
        allowed_origins=(),
        project="default",
        api_key=ApiKeySettings(key=KEY),
    )
    return ChannelsFrontEnd(MemoryEngine(clock.process), settings, access)
