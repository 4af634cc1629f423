# SPDX-License-Identifier: Apache-2.0
"""Socket writes at the end of an iteration of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from zaqar_redis.api.channels.websocket import json_frame, protobuf_frame
from zaqar_redis.api.server.outbox import FlushScheduler, FrameEncoder, Outbox
from zaqar_redis.api.server.sockets import EventQueue
from zaqar_redis.realtime.protocol import codes


class RecordingSocket:
    """Records the frames written, in order, and the close code."""

    def __init__(self, buffered: int = 0) -> None:
        self.written: list[bytes] = []
        self.code: int | None = None
        self._waiting = buffered

    def write(self, frames: bytes) -> None:
        self.written.append(frames)

    def end(self, code: int, reason: str) -> None:
        self.code = code

    def drop(self) -> None:
        self.code = 0

    def buffered(self) -> int:
        return self._waiting


class FailingSocket(RecordingSocket):
    def buffered(self) -> int:
        raise OSError("it is gone")


def _send_in_one_turn(*batches: tuple[RecordingSocket, FrameEncoder, list[bytes]]) -> None:
    """Sends the replies of each socket in one iteration of the event loop."""

    async def turn() -> None:
        one = FlushScheduler()
        outs = [(Outbox(socket, frame, one), replies) for socket, frame, replies in batches]
        for out, replies in outs:
            for reply in replies:
                out.send(reply)
        assert not any(socket.written for socket, _, _ in batches)
        await asyncio.sleep(0)

    asyncio.run(turn())


def test_replies_to_many_sockets_in_one_turn_are_encoded_once() -> None:
    replies = [b'{"a":1}', b'{"b":2}']
    sockets = [RecordingSocket() for _ in range(3)]
    _send_in_one_turn(*((socket, json_frame, replies) for socket in sockets))
    assert [socket.written for socket in sockets] == [[b"\x81\x0f" + b"\n".join(replies)]] * 3
    assert sockets[0].written[0] is sockets[2].written[0]


def test_socket_with_extra_replies_gets_them_in_order() -> None:
    first, second, third = RecordingSocket(), RecordingSocket(), RecordingSocket()
    _send_in_one_turn(
        (first, json_frame, [b"own", b"news"]),
        (second, json_frame, [b"news", b"own"]),
        (third, protobuf_frame, [b"own", b"news"]),
    )
    assert first.written == [b"\x81\x08own\nnews"]
    assert second.written == [b"\x81\x08news\nown"]
    assert third.written == [b"\x82\x07ownnews"]


@pytest.mark.parametrize(("buffered", "fits"), [(1024 * 1024 - 3, True), (1024 * 1024, False)])
def test_slow_socket_is_closed_and_others_still_get_the_frame(buffered: int, fits: bool) -> None:
    slow, other = RecordingSocket(buffered), RecordingSocket()
    _send_in_one_turn((slow, json_frame, [b"x"]), (other, json_frame, [b"x"]))
    assert (slow.written, slow.code) == ([b"\x81\x01x"], None) if fits else ([], codes.SLOW.code)
    assert other.written == [b"\x81\x01x"]


def test_failing_socket_does_not_stop_delivery_to_others(caplog: pytest.LogCaptureFixture) -> None:
    other = RecordingSocket()
    _send_in_one_turn((FailingSocket(), json_frame, [b"x"]), (other, json_frame, [b"x"]))
    assert other.written == [b"\x81\x01x"]
    assert "a connection failed" in caplog.text


async def test_outbox_knows_how_it_was_ended() -> None:
    slow, closed, left = (RecordingSocket(size) for size in (1024 * 1024, 0, 0))
    one = FlushScheduler()
    outs = [Outbox(socket, json_frame, one) for socket in (slow, closed, left)]
    for out in outs:
        out.send(b"x")
    await asyncio.sleep(0)
    outs[0].close(codes.SHUTDOWN)
    outs[1].close(codes.SHUTDOWN)
    assert [out.ended for out in outs] == [codes.SLOW, codes.SHUTDOWN, None]


async def test_pending_replies_are_written_before_close() -> None:
    socket = RecordingSocket()
    out = Outbox(socket, json_frame, FlushScheduler())
    out.send(b"x")
    out.close(codes.SHUTDOWN)
    assert (socket.written, socket.code) == ([b"\x81\x01x"], codes.SHUTDOWN.code)
    await asyncio.sleep(0)
    assert len(socket.written) == 1


async def test_waiting_reader_gets_events_in_order() -> None:
    events = EventQueue()
    reader = asyncio.create_task(events.get())
    await asyncio.sleep(0)
    assert events.empty()
    for number in range(3):
        events.put_nowait(number)
    assert [await reader, await events.get()] == [0, 1]
    assert not events.empty()
    assert await events.get() == 2
    cancelled = asyncio.create_task(events.get())
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.sleep(0)
    events.put_nowait(3)
    assert await events.get() == 3


async def test_large_reply_is_sent_to_drained_socket_and_closes_undrained_one() -> None:
    quick, slow = RecordingSocket(), RecordingSocket(1)
    for socket in (quick, slow):
        Outbox(socket, json_frame, FlushScheduler()).send(b"x" * (2 * 1024 * 1024))
    await asyncio.sleep(0)
    assert (len(quick.written), quick.code) == (1, None)
    assert (slow.written, slow.code) == ([], codes.SLOW.code)
