# SPDX-License-Identifier: Apache-2.0
"""Publications as subscribers get them who asked for deltas: whole, or what has changed.

A delta is of what this very client was sent last.  Its subscription remembers that, and all
that were sent it share it: so it is right whatever was missed before, and neither publishing nor
the store have to do with it.  A client of JSON needs the very bytes that a delta is of, so all
its data are in strings, also those that are text and no JSON.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from zaqar_redis.realtime import fossil, wire
from zaqar_redis.realtime.namespaces import Options

#: What clients may ask for.
TYPES = ("fossil",)
#: Bytes of data beyond which no delta is made: as much as a client publishes at once, and
#: what a node can spend some milliseconds on.
_SIZE_MAX = 65536
#: Deltas that are known: those of a whole recovery (300), as many clients may come back at
#: once, and some that are live.  Mostly of a kilobyte or two; 60 MiB if all are the largest.
_KNOWN = 320


class DeltaPublication(wire.Publication):
    """One that was published to be sent as a delta, whatever its namespace says."""


def is_wanted(publication: wire.Publication, options: Options) -> bool:
    return options.delta_publish or isinstance(publication, DeltaPublication)


def whole(publication: wire.Publication, binary: bool) -> wire.Publication:
    if binary:
        return publication
    text = _string(bytes(publication.data))
    return publication if text is None else replace(publication, data=text)


def behind(
    base: wire.Payload | None, publication: wire.Publication, binary: bool
) -> wire.Publication:
    """For who has *base*; None: for anybody."""
    delta = _delta(bytes(base), bytes(publication.data)) if base is not None else None
    if delta is None:
        return whole(publication, binary)
    if binary:
        return replace(publication, data=wire.Binary(delta), delta=True)
    text = _string(delta)
    if text is None:
        return whole(publication, binary)
    return replace(publication, data=text, delta=True)


def chained(publications: Iterable[wire.Publication], binary: bool) -> list[wire.Publication]:
    """The first one whole, and each other one behind the one before."""
    base, found = None, []
    for publication in publications:
        found.append(behind(base, publication, binary))
        base = publication.data
    return found


@functools.lru_cache(_KNOWN)
def _delta(base: bytes, data: bytes) -> bytes | None:
    """None: it would not be smaller."""
    if max(len(base), len(data)) > _SIZE_MAX:
        return None
    delta = fossil.create(base, data)
    return delta if len(delta) < len(data) else None


def _string(data: bytes) -> Raw | None:
    """None: it is no text."""
    try:
        return Raw(msgspec.json.encode(data.decode()))
    except UnicodeDecodeError:
        return None
