# SPDX-License-Identifier: Apache-2.0
"""Bytes that are no request of HTTP/1.1: what who sends them is told, and the log."""

from __future__ import annotations

import logging
from typing import Any

from zaqar_redis.api.access_log import peer_of
from zaqar_redis.repeated_lines import RepeatedLines

LOG = logging.getLogger(__name__)

#: of this process, whoever sends them: there may be thousands
_LINES = RepeatedLines()
#: How a client of TLS begins: a record of a handshake, in any version.
_TLS = b"\x16\x03"


def note(error: Exception, data: bytes, client: Any) -> str:
    """Returns what is wrong with a request, and logs it now and then.

    *data*: in which the parser has found it.  *client*: as ASGI has it.
    """
    # What our callbacks raise is the context of what the parser makes of it.
    found = error.__context__ if isinstance(error.__context__, ValueError) else error
    why = "it is TLS, and this port takes http:// only" if data.startswith(_TLS) else str(found)
    ending = _LINES.ending(why)
    if ending is not None:
        LOG.warning(
            "a request of %s is not valid HTTP/1.1: %s%s",
            peer_of(client) or "a client",
            why,
            ending,
            extra={"action": "request_malformed"},
        )
    return why
