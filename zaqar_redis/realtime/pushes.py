# SPDX-License-Identifier: Apache-2.0
"""Pushes that many get."""

from __future__ import annotations

from msgspec import Raw

from zaqar_redis.realtime import deltas, wire
from zaqar_redis.realtime.codec import Codec


class Pushed:
    """A publication of a channel, encoded when it is needed, once for each who differs."""

    __slots__ = ("_channel", "_deltas", "_plain", "_publication")

    def __init__(self, channel: str, publication: wire.Publication) -> None:
        self._channel = channel
        self._publication = publication
        self._plain: dict[Codec, bytes] = {}
        #: by codec and the identity of the base, which is kept: no other may get that
        self._deltas: dict[tuple[Codec, int], tuple[Raw | None, bytes]] = {}

    def plain(self, codec: Codec) -> bytes:
        found = self._plain.get(codec)
        if found is None:
            found = self._plain[codec] = self._encoded(codec, self._publication)
        return found

    def delta(self, codec: Codec, base: Raw | None) -> bytes:
        """For who asked for deltas, and has *base*; None: nothing."""
        key = (codec, id(base))
        found = self._deltas.get(key)
        if found is None:
            publication = deltas.behind(base, self._publication, codec.binary)
            found = self._deltas[key] = (base, self._encoded(codec, publication))
        return found[1]

    def _encoded(self, codec: Codec, publication: wire.Publication) -> bytes:
        return codec.encode(wire.Reply(push=wire.Push(channel=self._channel, pub=publication)))
