# SPDX-License-Identifier: Apache-2.0
"""The gunicorn worker: uvicorn on uvloop and httptools."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn_worker import UvicornWorker


class OneWrite:
    """A transport that writes once for all that one turn of the loop gives it.

    uvicorn writes the head and the body of a response apart, and uvloop makes a
    system call of each, which on a small answer is a tenth of the whole request.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._pieces: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Protocol(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, OneWrite(transport)))


class Worker(UvicornWorker):
    CONFIG_KWARGS: ClassVar[dict[str, Any]] = {
        "loop": "uvloop",
        "http": Protocol,
        "lifespan": "on",
        "access_log": False,
        "server_header": False,
        # Nothing here asks where a request came from.
        "proxy_headers": False,
    }

    def run(self) -> None:
        # What is there now stays; requests leave hardly any cycles behind. With
        # Python's own thresholds the collector takes a twelfth of all time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        super().run()
