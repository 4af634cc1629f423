# SPDX-License-Identifier: Apache-2.0
"""Publications for subscribers that asked for deltas: in full, or only what has changed.

The base of a delta is the data that this very client was sent last.  Its subscription holds the
base, and subscribers with the same base share the delta: so it is right whatever was missed
before, and neither publishers nor the store are involved.  A JSON client needs the exact bytes
of the base, so all its data are in strings, also text that is not JSON.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from zaqar_redis.realtime.protocol import fossil, wire
from zaqar_redis.realtime.session.namespaces import ChannelOptions

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
