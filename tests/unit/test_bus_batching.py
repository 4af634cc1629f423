# SPDX-License-Identifier: Apache-2.0
"""Messages of one iteration that travel together."""

from __future__ import annotations

import asyncio

import pytest

from zaqar_redis import errors
from zaqar_redis.realtime.buses.batching import FrameSender, pack

#: Bytes that the broker of these tests takes at most, more than a frame of several messages has.
_LIMIT = 100 * 1024
_TOO_LARGE = bytes(_LIMIT + 1)


def _write(_: bytes, frame: bytes) -> asyncio.Future[int | None]:
    written: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
    if len(frame) > _LIMIT:
        written.set_exception(errors.ContentTooLarge(why=f"{len(frame)} bytes"))
    else:
        written.set_result(1)
    return written


@pytest.mark.parametrize("too_large", [0, 1, 2])
async def test_of_messages_sent_together_only_the_one_that_is_too_large_is_refused(
    too_large: int,
) -> None:
    sender = FrameSender("bus", _write, 64 * 1024 * 1024)
    payloads = [_TOO_LARGE if place == too_large else b"small" for place in range(3)]
    results = await asyncio.gather(
        *(sender.send(b"p/news", payload) for payload in payloads), return_exceptions=True
    )
    refused = [isinstance(each, errors.ContentTooLarge) for each in results]
    assert refused == [place == too_large for place in range(3)]


async def test_messages_on_a_channel_that_packs_none_are_frames_of_their_own() -> None:
    frames: list[tuple[bytes, bytes]] = []

    def write(channel: bytes, frame: bytes) -> asyncio.Future[int | None]:
        frames.append((channel, frame))
        return _write(channel, frame)

    sender = FrameSender("bus", write, 1024, lambda channel: channel == b"routing")
    channels = (b"nodes", b"routing", b"nodes", b"routing")
    result = await asyncio.gather(*(sender.send(channel, b"m") for channel in channels))
    assert result == [1, 1, 1, 1]
    assert frames == [(b"nodes", b"m"), (b"nodes", b"m"), (b"routing", pack([b"m", b"m"]))]
