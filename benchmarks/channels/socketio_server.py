# SPDX-License-Identifier: Apache-2.0
"""A python-socketio server as in its documentation: all clients join one room.

python -m benchmarks.channels.socketio_server PORT REDIS-URI
"""

from __future__ import annotations

import sys
from typing import Any

import socketio
import uvicorn

ROOM = "news"
#: Seconds between its pings, which the clients of a benchmark do not answer.
_PINGS = 3600


def application(uri: str) -> Any:
    server = socketio.AsyncServer(
        async_mode="asgi",
        client_manager=socketio.AsyncRedisManager(uri),
        ping_interval=_PINGS,
    )

    async def connect(sid: str, environ: dict[str, Any]) -> None:
        await server.enter_room(sid, ROOM)

    server.on("connect", connect)
    return socketio.ASGIApp(server)


def main() -> None:
    _, port, uri = sys.argv
    uvicorn.run(
        application(uri),
        port=int(port),
        log_level="warning",
        access_log=False,
        # As in ours: the clients of a benchmark do not answer WebSocket pings either.
        ws_ping_interval=None,
    )


if __name__ == "__main__":
    main()
