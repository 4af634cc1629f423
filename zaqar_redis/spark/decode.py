# SPDX-License-Identifier: Apache-2.0
"""Messages at rest to Arrow batches, without a step of Python for each of them.

keyspace/envelope.py has the layout.  All heads are gathered into one array, whose
fields are then columns already; what has no fixed place is cut from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zaqar_redis.errors import BadConfiguration
from zaqar_redis.spark import columns, uuids
from zaqar_redis.storage.drivers.redis import identity

if TYPE_CHECKING:
    from zaqar_redis.spark.reading import Wanted
    from zaqar_redis.storage.drivers.redis.range_reader import RawPage

#: The first 56 bytes, which even the shortest message has: seven words to compare.
_HEAD = np.dtype(
    {
        "names": ["created", "expires", "ttl", "delay", "flags", "client", "origin"],
        "formats": [">u8", ">u8", ">u4", ">u4", "u1", "V16", "u1"],
        "offsets": [2, 11, 20, 25, 30, 33, 50],
        "itemsize": 56,
    }
)
_RAW_HEAD = np.dtype((np.void, _HEAD.itemsize))
_SEALED = 1
#: Where the body of a message without origin and checksum begins, and its origin.
_PLAIN_BODY, _ORIGIN = 58, 51
_BIN8, _BIN32 = 0xC4, 0xC6
#: The end of a slice: pyarrow 26 fails without one.
_END = 2**31 - 1
_INT_MAX = 2**31 - 1
#: Characters of the claim's id in a hold, before the count.
_CLAIM_ID = 32


def _words(pattern: dict[int, int]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The bytes of a head that a pattern is about, and what they are then."""
    about, then = np.zeros((2, _HEAD.itemsize), np.uint8)
    about[list(pattern)] = 0xFF
    then[list(pattern)] = list(pattern.values())
    return about.view(np.uint64), then.view(np.uint64)


_TAGS = {0: 0x99, 1: 0xCF, 10: 0xCF, 19: 0xCE, 24: 0xCE, 29: 0xCC, 31: _BIN8, 32: 16, 49: 0xD9}
_ABOUT_TAGS, _THEN_TAGS = _words(_TAGS)
_ABOUT_PLAIN, _THEN_PLAIN = _words({50: 0, 51: _BIN8, 52: 0, 53: _BIN32})


class NoEnvelope(ValueError):
    """What is stored for a message is none."""

    def __init__(self, origin: Origin, rank: int) -> None:
        super().__init__(
            f"message {rank} of {origin.project}/{origin.queue} is no envelope of this service"
        )


@dataclass(frozen=True)
class Origin:
    """What all messages of a partition have in common."""

    project: str
    queue: str
    pool: str
    epoch: str


@dataclass(frozen=True)
class Rows:
    """Messages that are there, by rows; all arrays are of one length."""

    #: int64
    ranks: NDArray[np.int64]
    #: binary
    envelopes: pa.BinaryArray
    #: of _HEAD
    heads: NDArray[np.void]
    #: where the body begins; None: all at _PLAIN_BODY
    bodies: NDArray[np.int64] | None
    #: binary, see lua/shared/hold.lua; None: as if all were null
    holds: pa.BinaryArray | None
    #: end of the claim and of the delay, ms; NaN: there is none, None: there are none
    held_until: NDArray[np.float64] | None
    delayed_until: NDArray[np.float64] | None

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """Those rows that the mask says."""
        if mask.all():
            return self
        chosen = pa.array(mask)
        return Rows(
            self.ranks[mask],
            self.envelopes.filter(chosen),
            self.heads[mask],
            None if self.bodies is None else self.bodies[mask],
            None if self.holds is None else self.holds.filter(chosen),
            None if self.held_until is None else self.held_until[mask],
            None if self.delayed_until is None else self.delayed_until[mask],
        )

    def alive(self, now: int) -> NDArray[np.bool_]:
        """Which have not expired, at a time in ms."""
        return self.heads["expires"] > now

    def held(self, now: int) -> NDArray[np.bool_]:
        """Which are held by a live claim."""
        return self._later(self.held_until, now)

    def delayed(self, now: int) -> NDArray[np.bool_]:
        """Which cannot be claimed yet."""
        return self._later(self.delayed_until, now)

    def _later(self, times: NDArray[np.float64] | None, now: int) -> NDArray[np.bool_]:
        return np.zeros(len(self.ranks), np.bool_) if times is None else times > now


#: Milliseconds, as numbers or as Redis writes them; None: there is none.
_Times = Sequence[float | bytes | None] | NDArray[np.float64]
#: A column of rows; the time in ms decides which claims are live.
_Reader = Callable[[Origin, Rows, int], pa.Array]


def rows(
    origin: Origin,
    ranks: Sequence[int] | NDArray[np.int64],
    envelopes: Sequence[bytes | None],
    holds: Sequence[bytes | None] | None = None,
    held_until: _Times | None = None,
    delayed_until: _Times | None = None,
) -> Rows:
    """What Redis answered, by rank, without the holes.

    Raises NoEnvelope, and BadConfiguration when all together are 2 GiB or more, which
    is what one Arrow batch can hold.
    """
    numbers = _numbers(ranks)
    stored = pa.array(envelopes, pa.binary())
    if isinstance(stored, pa.ChunkedArray):
        raise BadConfiguration(
            f"{len(numbers)} messages of {origin.project}/{origin.queue} are more than 2 GiB: "
            'the option "fetchSize" must be smaller'
        )
    claims = None if holds is None else pa.array(holds, pa.binary())
    held, delayed = _times(held_until), _times(delayed_until)
    if stored.null_count:
        there = stored.is_valid()
        mask = there.to_numpy(zero_copy_only=False)
        numbers, stored = numbers[mask], stored.filter(there)
        claims = None if claims is None else claims.filter(there)
        held = None if held is None else held[mask]
        delayed = None if delayed is None else delayed[mask]
    heads, bodies = _heads(origin, numbers, stored)
    return Rows(numbers, stored, heads, bodies, claims, held, delayed)


def batch(origin: Origin, names: tuple[str, ...], rows: Rows, now: int) -> pa.RecordBatch:
    """Known columns of messages; *now* in ms decides which claims are live."""
    schema = columns.arrow_schema(names)
    arrays = [_READERS[name](origin, rows, now) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def page(origin: Origin, wanted: Wanted, page: RawPage) -> pa.RecordBatch:
    """The batch of those messages of a page that are wanted; it may be empty."""
    found = rows(
        origin, page.ranks, page.envelopes, page.holds, page.held_until, page.delayed_until
    )
    if not wanted.include_expired:
        found = found.where(found.alive(page.now))
    if not wanted.include_claimed:
        found = found.where(~found.held(page.now))
    if not wanted.include_delayed:
        found = found.where(~found.delayed(page.now))
    return batch(origin, wanted.columns, found, page.now)


def _numbers(ranks: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    if isinstance(ranks, range):  # ten times as fast as by its elements
        return np.arange(ranks.start, ranks.stop, ranks.step, dtype=np.int64)
    return np.array(ranks, np.int64)


def _times(values: _Times | None) -> NDArray[np.float64] | None:
    return None if values is None else np.array(values, np.float64)


def _heads(
    origin: Origin, ranks: NDArray[np.int64], stored: pa.BinaryArray
) -> tuple[NDArray[np.void], NDArray[np.int64] | None]:
    """The heads, and where bodies begin, None for all plain."""
    if not len(stored):
        return np.empty(0, _HEAD), None
    offsets, data = _buffers(stored)
    starts, lengths = offsets[:-1], np.diff(offsets)
    _check(origin, ranks, lengths < _PLAIN_BODY)
    # A view with an element at each byte; to index it copies whole heads, but only of an
    # element without fields, which is copied field by field.
    places = np.ndarray((len(data) - _HEAD.itemsize + 1,), _RAW_HEAD, data, strides=(1,))
    heads = places[starts].view(_HEAD)
    words = heads.view(np.uint64).reshape(len(heads), -1)
    odd = (words & _ABOUT_TAGS) != _THEN_TAGS
    if odd.any():
        _check(origin, ranks, odd.any(axis=1))
    if ((words[:, 6] & _ABOUT_PLAIN[6]) == _THEN_PLAIN[6]).all():
        return heads, None
    return heads, _bodies(origin, ranks, stored, heads)


def _bodies(
    origin: Origin, ranks: NDArray[np.int64], stored: pa.BinaryArray, heads: NDArray[np.void]
) -> NDArray[np.int64]:
    """Where the body of each begins: behind an origin and a checksum of some length."""
    offsets, data = _buffers(stored)
    lengths = np.diff(offsets)
    behind = heads["origin"].astype(np.int64) + _ORIGIN
    _check(origin, ranks, lengths < behind + 7)
    checksum = offsets[:-1] + behind
    bodies: NDArray[np.int64] = behind + data[checksum + 1] + 7
    _check(origin, ranks, lengths < bodies)
    body = offsets[:-1] + bodies - 5
    _check(origin, ranks, (data[checksum] != _BIN8) | (data[body] != _BIN32))
    return bodies


def _buffers(stored: pa.BinaryArray) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Offsets and bytes of an array that is no slice of another."""
    _, offsets, data = stored.buffers()
    return (
        np.frombuffer(offsets, np.int32, len(stored) + 1),
        np.frombuffer(data, np.uint8),
    )


def _check(origin: Origin, ranks: NDArray[np.int64], odd: NDArray[np.bool_]) -> None:
    if odd.any():
        raise NoEnvelope(origin, int(ranks[odd.argmax()]))


def _same(text: Callable[[Origin], str]) -> _Reader:
    return lambda origin, rows, now: pa.repeat(text(origin), len(rows.ranks))


def _time(field: str) -> _Reader:
    return lambda origin, rows, now: _timestamps(rows.heads[field].astype(np.int64))


def _seconds(field: str) -> _Reader:
    return lambda origin, rows, now: pa.array(
        np.minimum(rows.heads[field], _INT_MAX).astype(np.int32)
    )


def _timestamps(
    milliseconds: NDArray[np.int64], absent: NDArray[np.bool_] | None = None
) -> pa.TimestampArray:
    return pa.array(milliseconds * 1000, mask=absent).view(columns.TIMESTAMP)


def _id(origin: Origin, rows: Rows, now: int) -> pa.StringArray:
    return uuids.behind(identity.prefix(origin.epoch), rows.ranks)


def _client_id(origin: Origin, rows: Rows, now: int) -> pa.StringArray:
    return uuids.texts(rows.heads["client"])


def _encrypted(origin: Origin, rows: Rows, now: int) -> pa.BooleanArray:
    return pa.array((rows.heads["flags"] & _SEALED).astype(np.bool_))


def _body(origin: Origin, rows: Rows, now: int) -> pa.BinaryArray:
    if rows.bodies is None:
        return pc.binary_slice(rows.envelopes, _PLAIN_BODY, _END)
    return _cut(rows.envelopes, rows.bodies, np.full(len(rows.bodies), _END))


def _checksum(origin: Origin, rows: Rows, now: int) -> pa.BinaryArray:
    if rows.bodies is None:
        return pa.nulls(len(rows.ranks), pa.binary())
    starts = rows.heads["origin"] + np.int64(_ORIGIN + 2)
    return _filled(_cut(rows.envelopes, starts, rows.bodies - 5))


def _dead_letter_from(origin: Origin, rows: Rows, now: int) -> pa.StringArray:
    if rows.bodies is None:
        return pa.nulls(len(rows.ranks), pa.string())
    ends = rows.heads["origin"] + np.int64(_ORIGIN)
    return _filled(_cut(rows.envelopes, np.full(len(ends), _ORIGIN), ends)).cast(pa.string())


def _cut(
    stored: pa.BinaryArray, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> pa.BinaryArray:
    """A part of each; in most queues it is the same one for all."""
    if not len(stored):
        return stored
    if (starts == starts[0]).all() and (ends == ends[0]).all():
        return pc.binary_slice(stored, int(starts[0]), int(ends[0]))
    places = zip(stored.to_pylist(), starts.tolist(), ends.tolist(), strict=True)
    return pa.array([whole[start:end] for whole, start, end in places], pa.binary())


def _filled(values: pa.BinaryArray) -> pa.BinaryArray:
    """The same, with null where there is nothing."""
    return pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)


def _claim_id(origin: Origin, rows: Rows, now: int) -> pa.StringArray:
    if rows.holds is None:
        return pa.nulls(len(rows.ranks), pa.string())
    ids = pc.binary_slice(rows.holds, 0, _CLAIM_ID).cast(pa.string())
    return pc.if_else(pa.array(rows.held(now)), ids, None)


def _claim_expires(origin: Origin, rows: Rows, now: int) -> pa.TimestampArray:
    if rows.held_until is None:
        return pa.nulls(len(rows.ranks), columns.TIMESTAMP)
    held = rows.held(now)
    times = np.where(held, rows.held_until, 0).astype(np.int64)
    return _timestamps(times, ~held)


def _claim_count(origin: Origin, rows: Rows, now: int) -> pa.Int32Array:
    if rows.holds is None:
        return pa.array(np.zeros(len(rows.ranks), np.int32))
    counts = pc.binary_slice(rows.holds, _CLAIM_ID, _END).cast(pa.string()).cast(pa.int32())
    return pc.fill_null(counts, 0)


_READERS: dict[str, _Reader] = {
    "project": _same(lambda origin: origin.project),
    "queue": _same(lambda origin: origin.queue),
    "kind": _same(lambda origin: "queue"),
    "pool": _same(lambda origin: origin.pool),
    "id": _id,
    "rank": lambda origin, rows, now: pa.array(rows.ranks),
    "epoch": _same(lambda origin: origin.epoch),
    "body": _body,
    "created": _time("created"),
    "expires": _time("expires"),
    "ttl": _seconds("ttl"),
    "delay": _seconds("delay"),
    "client_id": _client_id,
    "claim_id": _claim_id,
    "claim_expires": _claim_expires,
    "claim_count": _claim_count,
    "dead_letter_from": _dead_letter_from,
    "encrypted": _encrypted,
    "checksum": _checksum,
    "record": lambda origin, rows, now: rows.envelopes,
}
