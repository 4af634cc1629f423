# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy on loopback that can cut, hold and delay what goes through it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator

#: Bytes that are passed at once.
_CHUNK = 64 * 1024
#: Of SO_LINGER: nothing is sent any more.
_RESET = struct.pack("ii", 1, 0)


class TcpProxy:
    """Passes connections from a port to another one, as long as it is not cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._is_cut = False
        self._to_drop = 0
        #: seconds that each chunk waits: at least, and at most
        self._delay = (0.0, 0.0)
        self._requests, self._answers = asyncio.Event(), asyncio.Event()
        self.mend()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server

    async def start(self, port: int = 0) -> int:
        """Returns the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    async def stop(self) -> None:
        self.cut()
        self._server.close()
        await self._server.wait_closed()

    def cut(self) -> None:
        """Resets all connections, and refuses others until `mend`."""
        self._is_cut = True
        for writer in self._writers:
            _reset(writer)

    def hold(self) -> None:
        """Accepts connections and passes nothing until `mend`: both sides see silence."""
        self._requests.clear()
        self._answers.clear()

    def hold_answers(self) -> None:
        """Passes nothing back until `mend`: what is asked for is done."""
        self._answers.clear()

    def slow_down(self, least: float, most: float) -> None:
        """Delays each chunk by a random time in seconds until `mend`.

        Those of one connection keep their order, and pass those of others.
        """
        self._delay = (least, most)

    def mend(self) -> None:
        self._is_cut = False
        self._delay = (0.0, 0.0)
        self._requests.set()
        self._answers.set()

    def drop(self, connections: int) -> None:
        """Ends the next *connections* as soon as something is sent over them."""
        self._to_drop = connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Streams of Python 3.11 print a traceback of a callback that was cancelled.
        with contextlib.suppress(asyncio.CancelledError):
            await self._serve(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            _reset(writer)
            return
        if self._to_drop:
            self._to_drop -= 1
            await reader.read(1)
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # as if there were no proxy
            writer.transport.abort()
            return
        if self._is_cut:  # meanwhile
            _reset(back)
            _reset(writer)
            return
        self._writers |= {back, writer}
        await asyncio.gather(
            self._pass(reader, back, self._requests), self._pass(there, writer, self._answers)
        )

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flows: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                await flows.wait()
                if self._delay[1]:
                    await asyncio.sleep(random.uniform(*self._delay))
                sink.write(data)
                await sink.drain()
        self._writers.discard(sink)
        sink.transport.abort()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closes a connection so that the other side gets a reset, not an orderly end."""
    with contextlib.suppress(OSError):  # it has ended already
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


@contextlib.asynccontextmanager
async def tcp_proxy(target: int, port: int = 0) -> AsyncIterator[tuple[TcpProxy, int]]:
    """Yields a proxy before a port of loopback, and its own port; 0: any free one."""
    proxy = TcpProxy(target)
    listening = await proxy.start(port)
    try:
        yield proxy, listening
    finally:
        await proxy.stop()


class ProxyThread:
    """Proxies before several ports, run by a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        #: by their own ports
        self._proxies: dict[int, TcpProxy] = {}

    def add(self, target: int) -> int:
        """Puts a proxy before a port of loopback; returns its own port."""
        return asyncio.run_coroutine_threadsafe(self._add(target), self._loop).result()

    async def _add(self, target: int) -> int:
        proxy = TcpProxy(target)
        port = await proxy.start()
        self._proxies[port] = proxy
        return port

    def change(self, port: int, how: Callable[[TcpProxy], None]) -> None:
        """Calls one of the methods of the proxy that has a port."""
        self._loop.call_soon_threadsafe(how, self._proxies[port])

    async def _stop(self) -> None:
        for proxy in self._proxies.values():
            proxy.mend()
            await proxy.stop()
        # Those that are just connecting: their servers may have ended before.
        connecting = asyncio.all_tasks() - {asyncio.current_task()}
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        self._loop.stop()

    @contextlib.contextmanager
    def running(self) -> Iterator[ProxyThread]:
        self._thread.start()
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop)
            self._thread.join()
            self._loop.close()
