# SPDX-License-Identifier: Apache-2.0
"""Clients that the service disconnects: how many by code, and now and then whom."""

from __future__ import annotations

import logging

from zaqar_redis.metrics.definitions import DISCONNECTS
from zaqar_redis.realtime.protocol import codes
from zaqar_redis.realtime.protocol.codes import DisconnectCode
from zaqar_redis.repeated_lines import RepeatedLines

LOG = logging.getLogger(__name__)

#: Of the protocol; of WebSockets: bad data, too long a frame, no pong, a reload; of the WebSocket
#: API: no credential.  Operators may choose any other one: each would be a row for ever.
_KNOWN = {each.code for each in vars(codes).values() if isinstance(each, DisconnectCode)}
_KNOWN |= {1002, 1007, 1009, 1011, 1012, 4003}
_LABELS = {code: str(code) for code in _KNOWN}
#: of this process
_LINES = RepeatedLines()


def count(code: int) -> None:
    """Counts the end of a connection by the service; not the end by its client."""
    DISCONNECTS.add(_LABELS.get(code, "other"))


def log(close: DisconnectCode | None, address: str, transport: str, user: str = "") -> None:
    """Logs the first one with a code, then one every 30 s, with how many came between.

    *close*: None: its client has left.  *address*: of the client, or of the proxy before it.
    """
    if close is None or close == codes.SHUTDOWN:
        return  # a stop or a reload, which ends all of them, has a line of its own
    ending = _LINES.ending(_LABELS.get(close.code, "other"))
    if ending is not None:
        LOG.info(
            "disconnected a client (%s): %d %s%s",
            transport,
            close.code,
            close.reason,
            ending,
            extra={"action": "client_disconnected", "user": user, "peer": address},
        )
