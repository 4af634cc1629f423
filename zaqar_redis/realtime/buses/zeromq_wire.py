# SPDX-License-Identifier: Apache-2.0
"""What a ZeroMQ bus sends: the channel, who sends, the number of the frame, and the frame.

Sockets subscribe to prefixes of messages.  So a message begins with the length of the channel's
name: then no channel is the prefix of another.  By the numbers a receiver sees that a frame has
not come.
"""

from __future__ import annotations

import struct
from collections import OrderedDict

#: Where a broker receives messages, unless a URI says otherwise; it sends them from the next port.
PORT = 5561
#: The last one that has a next one.
PORT_MAX = 65534
_LENGTH = struct.Struct(">H")
#: The sender, and the number of the frame among its frames on the channel, from 1 on.
_ORIGIN = struct.Struct(">8sQ")
#: What probes begin with, in place of a length.
PROBE = b"\xff\xff"
#: Bytes of the name of a channel: 0xffff is for probes.
CHANNEL_MAX = 0xFFFE
#: Bytes of a frame: brokers and nodes cut connections that carry more, as something else than a
#: bus sends it.  As large as `BusSettings.backlog_bytes`, which bounds single messages.
FRAME_MAX = 64 * 1024 * 1024
#: Bytes of a message at most.
MESSAGE_MAX = _LENGTH.size + CHANNEL_MAX + _ORIGIN.size + FRAME_MAX
#: Channels of a sender, and pairs of sender and channel of a receiver, whose last number is
#: remembered: 200 bytes each.  Without it a gap is not seen, and nothing else happens.
_NUMBERS_MAX = 100_000


def topic_of(channel: bytes) -> bytes:
    """Returns what a message on the channel begins with.  Raises ValueError: it is too long."""
    if len(channel) > CHANNEL_MAX:
        raise ValueError(f"a channel's name has {len(channel)} bytes, more than {CHANNEL_MAX}")
    return _LENGTH.pack(len(channel)) + channel


def split(message: bytes) -> tuple[bytes, bytes, int, bytes]:
    """Returns topic, sender, number and frame of a message.  Raises ValueError."""
    try:
        end = _LENGTH.size + _LENGTH.unpack_from(message)[0]
        sender, number = _ORIGIN.unpack_from(message, end)
    except struct.error as error:
        raise ValueError(f"a message of {len(message)} bytes is cut off") from error
    return message[:end], sender, number, message[end + _ORIGIN.size :]


class FrameNumbers:
    """Numbers the frames that a sender sends on each channel."""

    def __init__(self, sender: bytes) -> None:
        """*sender*: 8 bytes that no other sender has."""
        self._sender = sender
        self._numbers: OrderedDict[bytes, int] = OrderedDict()

    def message(self, topic: bytes, frame: bytes) -> bytes:
        """Returns the message of the next frame on the topic's channel.

        A frame that is dropped has a number, too: the next one shows that it is missing.  Raises
        ValueError when it is too large.
        """
        number = self._numbers.get(topic, 0) + 1
        self._numbers[topic] = number
        self._numbers.move_to_end(topic)
        if len(self._numbers) > _NUMBERS_MAX:
            self._numbers.popitem(last=False)
        if len(frame) > FRAME_MAX:
            raise ValueError(f"a frame has {len(frame)} bytes, more than {FRAME_MAX}")
        return topic + _ORIGIN.pack(self._sender, number) + frame


class GapDetector:
    """Finds frames that have not come, by the numbers of those that have."""

    def __init__(self) -> None:
        #: (topic, sender) -> number, subscription and connection of its last frame
        self._last: OrderedDict[tuple[bytes, bytes], tuple[int, int, int]] = OrderedDict()

    def missed(
        self, topic: bytes, sender: bytes, number: int, subscription: int, connection: int
    ) -> tuple[int, bool]:
        """Notes a frame; returns how many are missing before it, and whether that is news: they
        were not lost with an earlier connection.

        *subscription* and *connection* are other numbers for each of these: what was sent
        while the channel was not subscribed to is not missing.  A number that is lower than the
        last one is the first of a sender that has forgotten the channel.
        """
        key = (topic, sender)
        last = self._last.get(key)
        self._last[key] = (number, subscription, connection)
        if last is None:
            if len(self._last) > _NUMBERS_MAX:
                self._last.popitem(last=False)
            return 0, False
        self._last.move_to_end(key)
        if last[1] != subscription:
            return 0, False
        return max(0, number - last[0] - 1), last[2] == connection
