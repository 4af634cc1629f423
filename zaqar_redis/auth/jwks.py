# SPDX-License-Identifier: Apache-2.0
"""Public keys of a JSON Web Key Set (RFC 7517) that is fetched from a URL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any

import jwt

from zaqar_redis import errors

LOG = logging.getLogger(__name__)

#: Seconds to wait for a response, and for which its keys are cached.
_TIMEOUT, _CACHE_TTL = 5, 300
#: Seconds between two fetches: a new key is found soon after it is published, and tokens with
#: made-up key ids do not cause more fetches than that.
_REFETCH_INTERVAL = 1.0


class JwksClient:
    def __init__(self, find_url: Callable[[], str]) -> None:
        """*find_url* may block; it raises OSError and ValueError when it finds none."""
        self._find_url = find_url
        # One fetch at a time, and none in the loop's shared pool of threads.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jwks")
        self._fetch_lock = asyncio.Lock()
        self._keys: dict[str, jwt.PyJWK] = {}
        #: by the clock of the loop: when the cache expires, and when the next fetch is allowed
        self._stale_at = self._refetch_at = 0.0
        #: why the last fetch failed, as logged
        self._last_error = ""

    async def key_for(self, token: str | bytes) -> tuple[Any, Sequence[str]]:
        """Returns the key that the token names, and its algorithms.

        Raises jwt.InvalidTokenError for a malformed token or one that names no key,
        KeyNotPublished when the keys that were fetched at most a second ago lack it, and
        StoreUnavailable when the fetch fails.
        """
        name = jwt.get_unverified_header(token).get("kid")
        if name is None:
            raise jwt.InvalidTokenError("the token does not name its key")
        key = self._cached(name)
        if key is None:
            async with self._fetch_lock:
                if self._cached(name) is None:  # not fetched meanwhile
                    await self._fetch()
            key = self._cached(name)
        if key is None:
            if not self._last_error:
                raise errors.KeyNotPublished
            raise errors.StoreUnavailable("of published keys")
        return key.key, [key.algorithm_name]

    def _cached(self, name: str) -> jwt.PyJWK | None:
        if asyncio.get_running_loop().time() > self._stale_at:
            return None
        return self._keys.get(name)

    async def _fetch(self) -> None:
        """Fetches the keys, unless the last fetch was just now."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._refetch_at:
            return
        try:
            found = await loop.run_in_executor(self._thread, self._download)
        except (jwt.PyJWTError, HTTPException, ValueError, OSError) as error:
            # Logged once: every connecting client triggers a fetch.
            if errors.reason(error) != self._last_error:
                self._last_error = errors.reason(error)
                LOG.warning(
                    "no published keys: %s", self._last_error, extra={"action": "keys_lost"}
                )
        else:
            self._last_error = ""
            self._keys = {key.key_id: key for key in found if key.key_id is not None}
            self._stale_at = loop.time() + _CACHE_TTL
        self._refetch_at = loop.time() + _REFETCH_INTERVAL

    def _download(self) -> list[jwt.PyJWK]:
        client = jwt.PyJWKClient(self._find_url(), timeout=_TIMEOUT, cache_jwk_set=False)
        return client.get_signing_keys()
