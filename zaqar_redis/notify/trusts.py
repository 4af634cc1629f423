# SPDX-License-Identifier: Apache-2.0
"""Trusts of Keystone for subscribers with ``trust+``, and the tokens that these give."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from zaqar_redis import errors

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: Questions to Keystone at the same time, of one process; Keystone has few processes itself.
_THREADS = 4
#: Seconds before its end that a token is not used any more: what gets it needs it for a while.
_MARGIN = 60.0
#: Tokens that a process remembers, of less than 1 KB each.
_TOKENS_MAX = 8192


class TrustClient(Protocol):
    """Asks Keystone, in the calling thread: see `zaqar_redis.auth.keystone_trusts`."""

    def create(self, token: str, project: str, ttl: int) -> str: ...

    def check(self, token: str, trust_id: str) -> None: ...

    def token(self, trust_id: str) -> tuple[str, float]: ...

    def delete(self, trust_id: str) -> None: ...


class TrustService:
    def __init__(self, client: TrustClient | None) -> None:
        """*client*: None: the service has no user that users could trust."""
        self._client = client
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="trusts")
        #: by trust: the token, and until when it is used (time.monotonic)
        self._tokens: dict[str, tuple[str, float]] = {}
        #: by trust: many messages may need a token that is not known yet
        self._running: dict[str, asyncio.Future[tuple[str, float]]] = {}

    def check(self) -> TrustClient:
        """Raises BadRequest when there are no trusts."""
        if self._client is None:
            raise errors.BadRequest(
                why='A "subscriber" with trust+ is not supported here: the operator has not set '
                "the strategy keystone, and in the group [trustee] a user that can be trusted."
            )
        return self._client

    async def grant(self, token: str | None, project: str, ttl: int, trust_id: str | None) -> str:
        """Returns the id of a trust of whoever sends the request.

        *token*: of the request, as Keystone knows it.  *ttl*: of the subscription.  *trust_id*: one
        that they want to use, else a new one is made.
        Raises BadRequest, Forbidden when Keystone refuses, and Unavailable.
        """
        client = self.check()
        if token is None:
            raise errors.BadRequest(
                why='A "subscriber" with trust+ needs a request with a token of Keystone.'
            )
        if trust_id is None:
            return await self._in_thread(lambda: client.create(token, project, ttl))
        await self._in_thread(lambda: client.check(token, trust_id))
        return trust_id

    async def delete(self, trust_id: str) -> None:
        """Deletes a trust that no subscription has any more; if that fails, it ends by itself."""
        self.forget_token(trust_id)
        client = self._client
        if client is None:
            return
        try:
            await self._in_thread(lambda: client.delete(trust_id))
        except errors.Problem as error:
            LOG.info(
                "a trust was not deleted: %s",
                errors.reason(error),
                extra={"action": "trust_delete_failed", "trust": trust_id},
            )

    async def token(self, trust_id: str) -> str:
        """Returns a token by a trust, which is valid for a while.

        Raises BadRequest without trusts, Forbidden when the trust is gone, and Unavailable.
        """
        if self.has_token(trust_id):
            return self._tokens[trust_id][0]
        running = self._running.get(trust_id) or self._begin(trust_id)
        return (await asyncio.shield(running))[0]

    def has_token(self, trust_id: str) -> bool:
        """Returns whether it need not ask for one."""
        return self._tokens.get(trust_id, ("", 0.0))[1] > time.monotonic()

    def forget_token(self, trust_id: str) -> None:
        """Lets it ask for another: the token may have been revoked."""
        self._tokens.pop(trust_id, None)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self, trust_id: str) -> asyncio.Future[tuple[str, float]]:
        client = self.check()
        running = self._in_thread(lambda: client.token(trust_id))
        self._running[trust_id] = running
        running.add_done_callback(lambda done: self._end(trust_id, done))
        return running

    def _end(self, trust_id: str, done: asyncio.Future[tuple[str, float]]) -> None:
        del self._running[trust_id]
        if done.cancelled() or done.exception():  # it may be that nobody waits any more
            return
        token, seconds = done.result()
        if len(self._tokens) >= _TOKENS_MAX:
            self._tokens.clear()
        self._tokens[trust_id] = token, time.monotonic() + seconds - _MARGIN

    def _in_thread(self, question: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, question)
