# SPDX-License-Identifier: Apache-2.0
"""Frames: text is JSON, binary is MessagePack.

Everything inside is JSON: bodies of messages pass unread.  A binary frame is translated when it
comes, and when it goes.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from zaqar_redis import rules
from zaqar_redis.api import documents
from zaqar_redis.api.exchange import Request
from zaqar_redis.api.server.sockets import encode_frame
from zaqar_redis.api.websocket.schemas import RequestFrame
from zaqar_redis.service.subscription_filters import SubscriptionFilter

_decode = msgspec.json.Decoder(RequestFrame).decode
#: Raised for what cannot be expressed in the other encoding, or is nested too deeply.
_UNTRANSLATABLE = (ValueError, TypeError, OverflowError, RecursionError)


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


class SocketRequest(Request[Any, Any]):
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


class FrameRejected(Exception):
    """A request without an action that could be tried."""

    def __init__(self, status: int, text: str, cause: str | UnsetType = UNSET) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.cause = cause


def decode(frame: bytes, binary: bool) -> RequestFrame:
    """Returns the request in a frame.  Raises FrameRejected."""
    try:
        return _decode(_to_json(frame) if binary else frame)
    except msgspec.ValidationError:
        text = "Unexpected body type. Expected dict or dict like."
    except _UNTRANSLATABLE as error:
        encoding = "binary (MessagePack)" if binary else "text (JSON)"
        why = error if binary else rules.json_problem(error, frame)
        text = f"Can't decode {encoding} request. {type(error).__name__}: {why}"
    raise FrameRejected(400, text)


def action_name(frame: RequestFrame) -> str:
    """Returns the name of the action; of what is no name the text."""
    data = bytes(frame.action)
    return msgspec.json.decode(data, type=str) if data.startswith(b'"') else data.decode()


def encode(document: Any, binary: bool) -> bytes:
    """Returns a whole frame.

    What MessagePack cannot express, such as an integer of more than 64 bits, goes as JSON: the
    messages of a claim or a pop must not be lost on their way.
    """
    data = documents.encode(document)
    if binary:
        try:
            return encode_frame(msgspec.msgpack.encode(msgspec.json.decode(data)), binary=True)
        except _UNTRANSLATABLE:
            pass
    return encode_frame(data, binary=False)


def _to_json(frame: bytes) -> bytes:
    # msgspec's own would turn bytes, times and NaN into something else, and not refuse them.
    value = msgspec.msgpack.decode(frame)
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
    ).encode()
