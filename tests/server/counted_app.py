# SPDX-License-Identifier: Apache-2.0
"""The application, for gunicorn; it tells how many requests have come to it by ASGI."""

from __future__ import annotations

import os
from typing import Any

from zaqar_redis.api.app import ApiSettings, App
from zaqar_redis.storage.redis import create

#: Environment variable with the URI of the store.
STORE = "ZAQAR_REDIS_TEST_STORE"
#: Its answer is the number of requests before.
CALLS = "/calls"


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
    return CountedApp(create(os.environ[STORE], {}), ApiSettings())
