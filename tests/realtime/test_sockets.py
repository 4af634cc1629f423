# SPDX-License-Identifier: Apache-2.0
"""What sockets write at the end of a turn of the loop."""

from __future__ import annotations

import asyncio

import pytest

from zaqar_redis.api.channels.outbox import Frame, Outbox, Turn
from zaqar_redis.api.channels.websocket import binary, text
from zaqar_redis.api.sockets import Events
from zaqar_redis.realtime import codes


class Socket:
    """What was written to it, in order, and how it was ended."""

    def __init__(self, waiting: int = 0) -> None:
        self.written: list[bytes] = []
        self.code: int | None = None
        self._waiting = waiting

    def write(self, frames: bytes) -> None:
        self.written.append(frames)

    def end(self, code: int, reason: str) -> None:
        self.code = code

    def drop(self) -> None:
        self.code = 0

    def waiting(self) -> int:
        return self._waiting


class Broken(Socket):
    def waiting(self) -> int:
        raise OSError("it is gone")


def _turn(*said: tuple[Socket, Frame, list[bytes]]) -> None:
    """Each says its replies, all in one turn."""

    async def turn() -> None:
        one = Turn()
        outs = [(Outbox(socket, frame, one), replies) for socket, frame, replies in said]
        for out, replies in outs:
            for reply in replies:
                out.send(reply)
        assert not any(socket.written for socket, _, _ in said)
        await asyncio.sleep(0)

    asyncio.run(turn())


def test_what_many_are_told_in_a_turn_is_one_frame_that_is_made_once() -> None:
    told = [b'{"a":1}', b'{"b":2}']
    sockets = [Socket() for _ in range(3)]
    _turn(*((socket, text, told) for socket in sockets))
    assert [socket.written for socket in sockets] == [[b"\x81\x0f" + b"\n".join(told)]] * 3
    assert sockets[0].written[0] is sockets[2].written[0]


def test_who_is_told_something_else_as_well_gets_it_in_its_order() -> None:
    first, second, third = Socket(), Socket(), Socket()
    _turn(
        (first, text, [b"own", b"news"]),
        (second, text, [b"news", b"own"]),
        (third, binary, [b"own", b"news"]),
    )
    assert first.written == [b"\x81\x08own\nnews"]
    assert second.written == [b"\x81\x08news\nown"]
    assert third.written == [b"\x82\x07ownnews"]


@pytest.mark.parametrize(("waiting", "fits"), [(1024 * 1024 - 3, True), (1024 * 1024, False)])
def test_who_does_not_read_is_ended_and_the_others_are_told(waiting: int, fits: bool) -> None:
    slow, other = Socket(waiting), Socket()
    _turn((slow, text, [b"x"]), (other, text, [b"x"]))
    assert (slow.written, slow.code) == ([b"\x81\x01x"], None) if fits else ([], codes.SLOW.code)
    assert other.written == [b"\x81\x01x"]


def test_a_socket_that_fails_keeps_nothing_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = Socket()
    _turn((Broken(), text, [b"x"]), (other, text, [b"x"]))
    assert other.written == [b"\x81\x01x"]
    assert "a connection failed" in caplog.text


def test_what_was_said_goes_out_before_the_end() -> None:
    socket = Socket()

    async def ended() -> None:
        out = Outbox(socket, text, Turn())
        out.send(b"x")
        out.close(codes.SHUTDOWN)
        assert (socket.written, socket.code) == ([b"\x81\x01x"], codes.SHUTDOWN.code)
        await asyncio.sleep(0)

    asyncio.run(ended())
    assert len(socket.written) == 1


def test_events_are_heard_in_order_also_by_who_waits_for_them() -> None:
    async def heard() -> None:
        events = Events()
        reader = asyncio.create_task(events.get())
        await asyncio.sleep(0)
        assert events.empty()
        for number in range(3):
            events.put_nowait(number)
        assert [await reader, await events.get()] == [0, 1]
        assert not events.empty()
        assert await events.get() == 2
        gone = asyncio.create_task(events.get())
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        events.put_nowait(3)
        assert await events.get() == 3

    asyncio.run(heard())


def test_a_long_answer_goes_out_to_who_has_taken_all_before() -> None:
    quick, slow = Socket(), Socket(1)

    async def told() -> None:
        for socket in (quick, slow):
            Outbox(socket, text, Turn()).send(b"x" * (2 * 1024 * 1024))
        await asyncio.sleep(0)

    asyncio.run(told())
    assert (len(quick.written), quick.code) == (1, None)
    assert (slow.written, slow.code) == ([], codes.SLOW.code)
