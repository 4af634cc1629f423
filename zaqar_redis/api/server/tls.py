# SPDX-License-Identifier: Apache-2.0
"""TLS that answers a client which speaks plain HTTP: else it only sees its connection end."""

from __future__ import annotations

import ssl
from typing import Any

from zaqar_redis.api.server import answers
from zaqar_redis.metrics.definitions import HTTP_REJECTED


class TlsObject(ssl.SSLObject):
    """The server's side of a connection."""

    _incoming: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO
    _has_answered = False

    @classmethod
    def _create(
        cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *given: Any, **named: Any
    ) -> Any:
        # The overridden method is CPython's own: its types leave it out.
        made: Any = super()._create(incoming, outgoing, *given, **named)  # type: ignore[misc]
        made._incoming, made._outgoing = incoming, outgoing
        return made

    def do_handshake(self) -> None:
        if self._has_answered:
            self._incoming.read()  # else the rest of a large request would be kept
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except ssl.SSLError as error:
            if error.reason != "HTTP_REQUEST":
                raise
            self._has_answered = True
            HTTP_REJECTED.add("400")
            self._outgoing.write(answers.PLAIN_HTTP)
            # uvloop writes it, and waits, as for any handshake: the client reads it and closes.
            raise ssl.SSLWantReadError from error
