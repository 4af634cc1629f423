# SPDX-License-Identifier: Apache-2.0
"""A world of squares on two nodes: see README.md beside this file.

python -m examples.grid
python -m examples.grid --bots 1000
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import AbstractContextManager

from aiohttp import web

from examples.grid import bots
from examples.grid.nodes import Keys, NodesFailed, child, new_keys, nodes, store
from examples.grid.server import SdkMissing, WorldServer
from examples.grid.world import World
from zaqar_redis import errors
from zaqar_redis.cli.base import bounded_int

#: Pixels of a square: a phone shows two or three of them, a desktop a dozen.
_SQUARE = 320
#: The least and the longest side: a player is as large as the one, a screen as the other.
_SIDES = 64, 4096
#: Each is a connection, in one process.
_BOTS_MAX = 5000


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.grid", description="A world of squares on two nodes."
    )
    port = bounded_int(0, 65_535)
    parser.add_argument(
        "--bots",
        type=bounded_int(0, _BOTS_MAX),
        default=0,
        metavar="N",
        help=f"players that walk about, {_BOTS_MAX} at most",
    )
    parser.add_argument("--port", type=port, default=8080, help="of the page; 0: any free one")
    parser.add_argument(
        "--node-ports", type=port, nargs=2, default=(0, 0), help="of the two nodes; 0: any free one"
    )
    parser.add_argument(
        "--square", type=bounded_int(*_SIDES), default=_SQUARE, help="its side in pixels"
    )
    parser.add_argument("--redis", metavar="URI", help="an existing store; else a private one")
    parser.add_argument(
        "--open", choices=("yes", "no"), default="yes", help="open the page in a browser"
    )
    given = parser.parse_args()
    one, other = given.node_ports
    if one == other != 0:
        parser.error(f"argument --node-ports: {one} is given twice")
    return given


async def _serve(given: argparse.Namespace, keys: Keys, ports: Sequence[int]) -> None:
    """Serves the page until SIGINT or SIGTERM."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    server = WorldServer(World(given.square), keys, ports)
    runner = web.AppRunner(server.application())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", given.port).start()
        page = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        for node, port in enumerate(ports, 1):
            print(f"{page}?node={node}   a player at node {node}, on port {port}")
        print("Open both, and walk with arrow keys, W A S D, or the mouse. Ctrl-C ends all.")
        print(f"To look on without being there: {page}?node=1&watch", flush=True)
        if given.open == "yes":
            webbrowser.open(f"{page}?node=1")
        await ended.wait()
    finally:
        await runner.cleanup()


def _bots(
    given: argparse.Namespace, keys: Keys, ports: Sequence[int]
) -> AbstractContextManager[None]:
    """Runs the bots in a process of their own, if there are any."""
    if not given.bots:
        return contextlib.nullcontext()
    urls = [f"ws://127.0.0.1:{port}/connection/websocket" for port in ports]
    options = ["--bots", str(given.bots), "--square", str(given.square)]
    command = [sys.executable, "-m", bots.__name__, *urls, *options]
    return child(command, {bots.KEY_VARIABLE: keys.token})


def main() -> None:
    given, keys = _arguments(), new_keys()
    # Until all has started, too, SIGTERM ends all that has.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            store(given.redis) as uri,
            nodes(uri, keys, given.node_ports) as ports,
            _bots(given, keys, ports),
        ):
            asyncio.run(_serve(given, keys, ports))
    except (NodesFailed, SdkMissing, OSError, errors.BadConfiguration, errors.Unavailable) as error:
        sys.exit(f"examples.grid: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
