# SPDX-License-Identifier: Apache-2.0
"""Keys that somebody publishes, as a set of JSON Web Keys (RFC 7517)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt

from zaqar_redis import errors

#: Seconds for an answer, and for which a key is known after one.
_TIMEOUT, _LIFE = 5, 300
#: Seconds for which nobody asks again after there was no answer.
_PAUSE = 1.0


class PublishedKeys:
    def __init__(self, url: str) -> None:
        self._client = jwt.PyJWKClient(url, timeout=_TIMEOUT, lifespan=_LIFE)
        # One at a time, and not among the threads that others need.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jwks")
        self._asking = asyncio.Lock()
        self._away_until = 0.0

    async def key_for(self, token: str) -> tuple[Any, Sequence[str]]:
        """The key and its algorithms.

        Raises jwt.InvalidTokenError and PyJWKClientError when it is not among them, and
        StoreUnavailable when nobody answers.
        """
        loop = asyncio.get_running_loop()
        async with self._asking:
            if loop.time() < self._away_until:
                raise errors.StoreUnavailable("of published keys")
            try:
                key = await loop.run_in_executor(
                    self._thread, self._client.get_signing_key_from_jwt, token
                )
            except jwt.PyJWKClientConnectionError as error:
                self._away_until = loop.time() + _PAUSE
                raise errors.StoreUnavailable("of published keys") from error
        return key.key, [key.algorithm_name]
