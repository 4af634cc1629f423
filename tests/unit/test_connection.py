# SPDX-License-Identifier: Apache-2.0
"""What keeps a connection open, without a server."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from zaqar_redis.keyspace import connection as connections
from zaqar_redis.keyspace.connection import ConnectionKeeper, Parts


class _SlowConnection:
    """Takes its time to close."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_closing = asyncio.Event()
        self.may_close = asyncio.Event()
        self.is_closed = False

    async def serve(self) -> None:
        await asyncio.Event().wait()

    async def connect(self) -> None:
        self.is_open.set()

    async def disconnect(self, nowait: bool = False) -> None:
        self.is_closing.set()
        await self.may_close.wait()
        self.is_closed = True


async def _started(connection: _SlowConnection) -> ConnectionKeeper[_SlowConnection]:
    """Returns what keeps *connection*, which is open."""

    def serve(_: _SlowConnection) -> Parts:
        return (connection.serve(),)

    keeper = ConnectionKeeper(
        lambda: connection,
        serve,
        lambda: None,
        name="connection of a test",
        store="test",
        action="lost",
        timeout=1,
        backoff=1,
        backoff_max=1,
    )
    keeper.start()
    await connection.is_open.wait()
    return keeper


async def test_task_that_is_cancelled_while_it_closes_a_connection_ends_as_cancelled() -> None:
    connection = _SlowConnection()
    keeper = await _started(connection)
    closing = asyncio.create_task(keeper.close())
    await connection.is_closing.wait()
    closing.cancel()
    connection.may_close.set()
    await asyncio.wait([closing])
    assert closing.cancelled()


async def test_connection_that_closes_slowly_is_closed_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_CANCEL_SECONDS", 0.01)
    connection = _SlowConnection()
    keeper = await _started(connection)
    closing = asyncio.create_task(keeper.close())
    await connection.is_closing.wait()
    await asyncio.sleep(0.05)
    connection.may_close.set()
    await closing
    assert connection.is_closed


class _DeafConnection(_SlowConnection):
    """Loses the first cancellation, as Python's wait_for may."""

    async def serve(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await super().serve()
        await super().serve()


async def test_cancellation_that_is_lost_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_CANCEL_SECONDS", 0.01)
    connection = _DeafConnection()
    connection.may_close.set()
    keeper = await _started(connection)
    async with asyncio.timeout(30):
        await keeper.close()
    assert connection.is_closed


async def test_keeper_that_was_closed_can_be_started_again() -> None:
    connection = _SlowConnection()
    connection.may_close.set()
    keeper = await _started(connection)
    await keeper.close()
    connection.is_closed = False
    connection.is_open.clear()
    keeper.start()
    await connection.is_open.wait()
    await keeper.close()
    assert connection.is_closed
