# SPDX-License-Identifier: Apache-2.0
"""Keys that somebody publishes, as a set of JSON Web Keys (RFC 7517)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any

import jwt

from zaqar_redis import errors

LOG = logging.getLogger(__name__)

#: Seconds for an answer, and for which keys are known after one.
_TIMEOUT, _LIFE = 5, 300
#: Seconds between two questions: a new key is found as soon as it is published, and who makes
#: up names of keys makes us ask no more often than that.
_PAUSE = 1.0


class PublishedKeys:
    def __init__(self, url: str) -> None:
        self._client = jwt.PyJWKClient(url, timeout=_TIMEOUT, cache_jwk_set=False)
        # One at a time, and not among the threads that others need.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jwks")
        self._asking = asyncio.Lock()
        self._keys: dict[str, jwt.PyJWK] = {}
        #: by the clock of the loop: when they are believed no longer, and may be asked for again
        self._stale_at = self._ask_at = 0.0
        #: why they could not be had, as the log has it
        self._said = ""

    async def key_for(self, token: str) -> tuple[Any, Sequence[str]]:
        """The key that the token names, and its algorithms.

        Raises jwt.InvalidTokenError when it names none, and StoreUnavailable when the key is
        not among those that are published, or nobody answers: it may be there soon.
        """
        name = jwt.get_unverified_header(token)["kid"]
        key = self._known(name)
        if key is None:
            async with self._asking:
                if self._known(name) is None:  # nobody has asked meanwhile
                    await self._ask()
            key = self._known(name)
        if key is None:
            raise errors.StoreUnavailable("of published keys")
        return key.key, [key.algorithm_name]

    def _known(self, name: str) -> jwt.PyJWK | None:
        if asyncio.get_running_loop().time() > self._stale_at:
            return None
        return self._keys.get(name)

    async def _ask(self) -> None:
        """Unless it was done just now."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._ask_at:
            return
        try:
            found = await loop.run_in_executor(self._thread, self._client.get_signing_keys)
        except (jwt.PyJWTError, HTTPException, ValueError, OSError) as error:
            if errors.reason(error) != self._said:  # once: everybody who connects makes us ask
                self._said = errors.reason(error)
                LOG.warning("no published keys: %s", self._said, extra={"action": "keys_lost"})
        else:
            self._said = ""
            self._keys = {key.key_id: key for key in found if key.key_id is not None}
            self._stale_at = loop.time() + _LIFE
        self._ask_at = loop.time() + _PAUSE
