# SPDX-License-Identifier: Apache-2.0
"""A request in a frame, and the socket that it comes from."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from zaqar_redis.api.exchange import Request
from zaqar_redis.service.subscription_filters import SubscriptionFilter


class Subscriber(Protocol):
    """A socket, as an action sees it."""

    #: its URI
    uri: str

    async def begin_pushes(
        self,
        project: str,
        queue: str,
        id: str,
        *,
        wanted: SubscriptionFilter | None,
        with_attributes: bool,
    ) -> None:
        """Pushes the messages of a queue.  Raises LimitExceeded, StoreUnavailable, BadRequest.

        *wanted*: which of them; None: all.
        """

    def end_pushes(self, id: str) -> None:
        """Pushes no more for a subscription, if this socket is its subscriber."""


class SocketRequest(Request[None, Any]):
    """A request in a frame."""

    def __init__(self, path: str, headers: dict[bytes, bytes], subscriber: Subscriber) -> None:
        super().__init__(path, "", headers)
        self.subscriber = subscriber

    # A frame is no request of HTTP: there is none that could be signed.
    method = ""
    raw_path = ""

    async def read_body(self) -> bytes:
        return b""

    def watch_disconnect(self) -> asyncio.Event:
        return asyncio.Event()  # no action waits
