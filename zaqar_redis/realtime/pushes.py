# SPDX-License-Identifier: Apache-2.0
"""Pushes that many get."""

from __future__ import annotations

import logging

from zaqar_redis.realtime import deltas, wire
from zaqar_redis.realtime.codec import Codec, Inappropriate

LOG = logging.getLogger(__name__)


class Pushed:
    """A publication of a channel, encoded when it is needed, once for each who differs.

    None: it is no JSON, and *codec* has nothing else.
    """

    __slots__ = ("_channel", "_deltas", "_plain", "_publication")

    def __init__(self, channel: str, publication: wire.Publication) -> None:
        self._channel = channel
        self._publication = publication
        self._plain: dict[Codec, bytes | None] = {}
        #: by codec and the identity of the base, which is kept: no other may get that
        self._deltas: dict[tuple[Codec, int], tuple[wire.Payload | None, bytes | None]] = {}

    def plain(self, codec: Codec) -> bytes | None:
        if codec not in self._plain:
            self._plain[codec] = self._encoded(codec, self._publication)
        return self._plain[codec]

    def delta(self, codec: Codec, base: wire.Payload | None) -> bytes | None:
        """For who asked for deltas, and has *base*; None: nothing."""
        key = (codec, id(base))
        found = self._deltas.get(key)
        if found is None:
            publication = deltas.behind(base, self._publication, codec.binary)
            found = self._deltas[key] = (base, self._encoded(codec, publication))
        return found[1]

    def _encoded(self, codec: Codec, publication: wire.Publication) -> bytes | None:
        push = wire.Push(channel=self._channel, pub=publication)
        try:
            return codec.encode(wire.Reply(push=push))
        except Inappropriate:
            LOG.warning(
                "a publication in %.300r is no JSON: its subscribers that read nothing else "
                "are disconnected",
                self._channel,
                extra={"action": "inappropriate"},
            )
            return None
