# SPDX-License-Identifier: Apache-2.0
"""A reply only reaches the command that it answers, however long the process stood still."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import hiredis
import pytest
import uvloop

from tests.support import servers
from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.settings import BatchSettings

#: It sends nothing by itself: it does not watch the memory of the store.
_QUICK = BatchSettings(
    timeout=0.2, connect_timeout=60, backoff=0.01, backoff_max=0.05, memory_share=0
)


class _HesitantServer:
    """Answers in order: ECHO when it is told to, all other commands with OK."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        #: the connection and the reply of each
        self._held: list[tuple[socket.socket, bytes]] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def held(self) -> bool:
        return bool(self._held)

    def answer(self) -> None:
        """Sends the replies to all that it has been asked."""
        with self._lock:
            for connection, reply in self._held:
                with contextlib.suppress(OSError):  # the client may have left
                    connection.sendall(reply)
            self._held.clear()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        commands = hiredis.Reader()
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(64 * 1024):
                commands.feed(data)
                while (command := commands.gets()) is not False:
                    with self._lock:
                        if command[0] == b"ECHO":
                            self._held.append((connection, b"+%b\r\n" % command[1]))
                        elif self._held:
                            self._held.append((connection, b"+OK\r\n"))
                        else:
                            connection.sendall(b"+OK\r\n")


@pytest.fixture
def server() -> Iterator[_HesitantServer]:
    hesitant = _HesitantServer()
    yield hesitant
    hesitant.close()


class _Asker(asyncio.Protocol):
    """Calls a function when something arrives, as a request of a client does."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask

    def data_received(self, data: bytes) -> None:
        self._ask()


def _stand_still() -> None:
    time.sleep(1.5 * _QUICK.timeout)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("turn", range(8))
def test_replies_that_arrive_at_the_deadline_reach_no_later_command(
    server: _HesitantServer, run: Callable[[Coroutine[Any, Any, None]], None], turn: int
) -> None:
    """*turn*: of the event loop after the pause, in which they arrive, just after a request.

    uvloop runs timers before it reads: the deadline comes first, then the request, then they.
    """

    async def scenario() -> None:
        asked: list[tuple[bytes, asyncio.Future[Any]]] = []

        def ask() -> None:
            text = b"%d" % len(asked)
            asked.append((text, asyncio.ensure_future(client.command("ECHO", text))))

        ours, theirs = socket.socketpair()
        connection, _ = await asyncio.get_running_loop().create_connection(
            lambda: _Asker(ask), sock=theirs
        )
        store = keyspace.connected(f"redis://127.0.0.1:{server.port}", _QUICK)
        with contextlib.closing(connection), ours:
            async with store as client:
                ask()
                await asyncio.to_thread(servers.wait_for, lambda: server.held, "a command")
                _stand_still()
                for number in range(12):
                    ours.send(b"?")
                    if number == turn:
                        server.answer()
                    await asyncio.sleep(0)
                server.answer()
                await asyncio.wait([answer for _, answer in asked], timeout=30)
            outcomes = [(text, answer.exception() or answer.result()) for text, answer in asked]
            others = [each for each in outcomes if not isinstance(each[1], errors.StoreUnavailable)]
            assert [reply for _, reply in others] == [text for text, _ in others]

    run(scenario())
