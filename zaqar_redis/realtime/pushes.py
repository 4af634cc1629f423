# SPDX-License-Identifier: Apache-2.0
"""Pushes to many subscribers, encoded once."""

from __future__ import annotations

import logging

from zaqar_redis.realtime.protocol import wire
from zaqar_redis.realtime.protocol.codec import Codec, InappropriatePayload
from zaqar_redis.realtime.session import deltas

LOG = logging.getLogger(__name__)


class EncodedPublication:
    """A publication of a channel, encoded on demand, once per codec and delta base.

    Its methods return None when the payload is not JSON and *codec* supports nothing else.
    """

    __slots__ = ("_channel", "_deltas", "_plain", "_publication")

    def __init__(self, channel: str, publication: wire.Publication) -> None:
        self._channel = channel
        self._publication = publication
        self._plain: dict[Codec, bytes | None] = {}
        #: by codec and the identity of the base, which the value holds, so the id stays its own
        self._deltas: dict[tuple[Codec, int], tuple[wire.Payload | None, bytes | None]] = {}

    def plain(self, codec: Codec) -> bytes | None:
        if codec not in self._plain:
            self._plain[codec] = self._encoded(codec, self._publication)
        return self._plain[codec]

    def delta(self, codec: Codec, base: wire.Payload | None) -> bytes | None:
        """Returns the push for a subscriber to deltas that has *base*, None: that has no base."""
        key = (codec, id(base))
        found = self._deltas.get(key)
        if found is None:
            publication = deltas.delta_or_full(base, self._publication, codec.binary)
            found = self._deltas[key] = (base, self._encoded(codec, publication))
        return found[1]

    def _encoded(self, codec: Codec, publication: wire.Publication) -> bytes | None:
        push = wire.Push(channel=self._channel, pub=publication)
        try:
            return codec.encode(wire.Reply(push=push))
        except InappropriatePayload:
            LOG.warning(
                "a publication in %.300r is not JSON: its subscribers that use JSON "
                "are disconnected",
                self._channel,
                extra={"action": "inappropriate"},
            )
            return None
