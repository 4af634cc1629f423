# SPDX-License-Identifier: Apache-2.0
"""Publications as subscribers get them: in full or, for those that asked, as deltas.

The base of a delta is the data that this very client was sent last.  Its subscription holds the
base, and subscribers with the same base share the delta: so it is right whatever was missed
before, and neither publishers nor the store are involved.  A JSON client needs the exact bytes
of the base, so all its data are in strings, also text that is not JSON.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from zaqar_redis.realtime.protocol import fossil, wire
from zaqar_redis.realtime.protocol.codec import Codec, InappropriatePayload
from zaqar_redis.realtime.session.namespaces import ChannelOptions

LOG = logging.getLogger(__name__)

#: Types of deltas that clients may ask for.
TYPES = ("fossil",)
#: Bytes of data beyond which no delta is computed: as much as a client may publish at once,
#: and some milliseconds of a node's time.
_SIZE_MAX = 65536
#: Cached deltas: those of a whole recovery (300), since many clients may reconnect at once,
#: and some live ones.  Mostly of a kilobyte or two; 60 MiB if all are the largest.
_CACHE_SIZE = 320


class DeltaPublication(wire.Publication):
    """A publication to be sent as a delta, whatever its namespace says."""


def is_delta_requested(publication: wire.Publication, options: ChannelOptions) -> bool:
    return options.delta_publish or isinstance(publication, DeltaPublication)


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
            publication = delta_or_full(base, self._publication, codec.binary)
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


def full(publication: wire.Publication, binary: bool) -> wire.Publication:
    if binary:
        return publication
    text = _string(bytes(publication.data))
    return publication if text is None else replace(publication, data=text)


def delta_or_full(
    base: wire.Payload | None, publication: wire.Publication, binary: bool
) -> wire.Publication:
    """Returns it as a delta of *base* when that is smaller, else in full."""
    delta = _delta(bytes(base), bytes(publication.data)) if base is not None else None
    if delta is None:
        return full(publication, binary)
    if binary:
        return replace(publication, data=wire.Binary(delta), delta=True)
    text = _string(delta)
    if text is None:
        return full(publication, binary)
    return replace(publication, data=text, delta=True)


def delta_chain(publications: Iterable[wire.Publication], binary: bool) -> list[wire.Publication]:
    """Returns the first one in full, and each other one as a delta of the one before."""
    base, found = None, []
    for publication in publications:
        found.append(delta_or_full(base, publication, binary))
        base = publication.data
    return found


@functools.lru_cache(_CACHE_SIZE)
def _delta(base: bytes, data: bytes) -> bytes | None:
    """Returns None when it would not be smaller, or the data are too large."""
    if max(len(base), len(data)) > _SIZE_MAX:
        return None
    delta = fossil.create(base, data)
    return delta if len(delta) < len(data) else None


def _string(data: bytes) -> Raw | None:
    """Returns *data* as a JSON string; None when it is not UTF-8."""
    try:
        return Raw(msgspec.json.encode(data.decode()))
    except UnicodeDecodeError:
        return None
