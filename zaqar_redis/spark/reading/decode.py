# SPDX-License-Identifier: Apache-2.0
"""Decodes stored messages to Arrow batches, without a step of Python for each message, unless
it has attributes that are wanted.

keyspace/envelope.py has the layout.  All heads are gathered into one array, whose
fields are then columns already; fields without a fixed offset are cut from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zaqar_redis import rules
from zaqar_redis.errors import BadConfiguration
from zaqar_redis.keyspace import envelope
from zaqar_redis.spark import attributes, columns
from zaqar_redis.spark.reading import pasts, uuids
from zaqar_redis.storage.redis import identity

if TYPE_CHECKING:
    from zaqar_redis.spark.reading.partitions import ReadSpec
    from zaqar_redis.storage.redis.bulk.range_reader import RawPage

#: The first 56 bytes, which even the shortest envelope has: seven words to compare.
_HEAD = np.dtype(
    {
        "names": ["created", "expires", "ttl", "delay", "flags", "client", "origin"],
        "formats": [">u8", ">u8", ">u4", ">u4", "u1", "V16", "u1"],
        "offsets": [2, 11, 20, 25, 30, 33, 50],
        "itemsize": 56,
    }
)
_RAW_HEAD = np.dtype((np.void, _HEAD.itemsize))
_ENCRYPTED, _HAS_ATTRIBUTES = 1, 2
#: Where the body of a message without origin and checksum begins, and its origin.
_PLAIN_BODY, _ORIGIN = 58, 51
_BIN8, _BIN32 = 0xC4, 0xC6
#: Bytes before the attributes, which say how many these are.
_LENGTH = 4
#: The end of a slice: pyarrow 26 fails without one.
_END = 2**31 - 1
_INT_MAX = 2**31 - 1
#: Characters of the claim's id in a hold, before the count and more.
_CLAIM_ID = 32


def _mask_and_values(pattern: dict[int, int]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Returns the mask of the bytes that a pattern is about, and their values."""
    mask, values = np.zeros((2, _HEAD.itemsize), np.uint8)
    mask[list(pattern)] = 0xFF
    values[list(pattern)] = list(pattern.values())
    return mask.view(np.uint64), values.view(np.uint64)


_TAGS = {0: 0x99, 1: 0xCF, 10: 0xCF, 19: 0xCE, 24: 0xCE, 29: 0xCC, 31: _BIN8, 32: 16, 49: 0xD9}
_TAGS_MASK, _TAGS_VALUES = _mask_and_values(_TAGS)
_PLAIN_MASK, _PLAIN_VALUES = _mask_and_values({50: 0, 51: _BIN8, 52: 0, 53: _BIN32})


class InvalidEnvelope(ValueError):
    """The stored bytes of a message are not a valid envelope."""

    def __init__(self, source: MessageSource, rank: int) -> None:
        super().__init__(
            f"message {rank} of {source.project}/{source.queue} is no envelope of this service"
        )


@dataclass(frozen=True)
class MessageSource:
    """What all messages of a partition have in common."""

    project: str
    queue: str
    pool: str
    epoch: str


@dataclass(frozen=True)
class Rows:
    """Messages that exist, by rows; all arrays have the same length."""

    #: int64
    ranks: NDArray[np.int64]
    #: binary
    envelopes: pa.BinaryArray
    #: of _HEAD
    heads: NDArray[np.void]
    #: offset of the body; None: _PLAIN_BODY for all
    bodies: NDArray[np.int64] | None
    #: binary, see lua/shared/hold.lua; None: as if all were null
    holds: pa.BinaryArray | None
    #: end of the claim and of the delay, ms; NaN: no end, None: no message has one
    held_until: NDArray[np.float64] | None
    delayed_until: NDArray[np.float64] | None

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """Returns the rows that the mask selects."""
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
        """Returns the mask of rows that have not expired, at a time in ms."""
        return self.heads["expires"] > now

    def held(self, now: int) -> NDArray[np.bool_]:
        """Returns the mask of rows that a live claim holds."""
        return self._later(self.held_until, now)

    def delayed(self, now: int) -> NDArray[np.bool_]:
        """Returns the mask of rows that cannot be claimed yet."""
        return self._later(self.delayed_until, now)

    def _later(self, times: NDArray[np.float64] | None, now: int) -> NDArray[np.bool_]:
        return np.zeros(len(self.ranks), np.bool_) if times is None else times > now


#: Milliseconds, as numbers or as Redis writes them; None: no time.
_Times = Sequence[float | bytes | None] | NDArray[np.float64]
#: Builds a column from rows; the time in ms decides which claims are live.
_ColumnReader = Callable[[MessageSource, Rows, int], pa.Array]


def rows(
    source: MessageSource,
    ranks: Sequence[int] | NDArray[np.int64],
    envelopes: Sequence[bytes | None],
    holds: Sequence[bytes | None] | None = None,
    held_until: _Times | None = None,
    delayed_until: _Times | None = None,
) -> Rows:
    """Returns what Redis answered, by rank, without ranks that have no message.

    Raises InvalidEnvelope, and BadConfiguration when all together have 2 GiB or more, the
    limit of one Arrow batch.
    """
    numbers = _numbers(ranks)
    stored = pa.array(envelopes, pa.binary())
    if isinstance(stored, pa.ChunkedArray):
        raise BadConfiguration(
            f"{len(numbers)} messages of {source.project}/{source.queue} are more than 2 GiB: "
            'the option "fetchSize" must be smaller'
        )
    claims = None if holds is None else pa.array(holds, pa.binary())
    held, delayed = _times(held_until), _times(delayed_until)
    if stored.null_count:
        existing = stored.is_valid()
        mask = existing.to_numpy(zero_copy_only=False)
        numbers, stored = numbers[mask], stored.filter(existing)
        claims = None if claims is None else claims.filter(existing)
        held = None if held is None else held[mask]
        delayed = None if delayed is None else delayed[mask]
    heads, bodies = _heads(source, numbers, stored)
    return Rows(numbers, stored, heads, bodies, claims, held, delayed)


def batch(source: MessageSource, names: tuple[str, ...], rows: Rows, now: int) -> pa.RecordBatch:
    """Returns known columns of messages; *now* in ms decides which claims are live."""
    schema = columns.arrow_schema(names)
    arrays = [_READERS[name](source, rows, now) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def page(source: MessageSource, read_spec: ReadSpec, page: RawPage) -> pa.RecordBatch:
    """Returns the batch of the messages of a page that *read_spec* includes; may be empty."""
    found = rows(
        source, page.ranks, page.envelopes, page.holds, page.held_until, page.delayed_until
    )
    if not read_spec.include_expired:
        found = found.where(found.alive(page.now))
    if not read_spec.include_claimed:
        found = found.where(~found.held(page.now))
    if not read_spec.include_delayed:
        found = found.where(~found.delayed(page.now))
    return batch(source, read_spec.columns, found, page.now)


def _numbers(ranks: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    if isinstance(ranks, range):  # ten times as fast as by its elements
        return np.arange(ranks.start, ranks.stop, ranks.step, dtype=np.int64)
    return np.array(ranks, np.int64)


def _times(values: _Times | None) -> NDArray[np.float64] | None:
    return None if values is None else np.array(values, np.float64)


def _heads(
    source: MessageSource, ranks: NDArray[np.int64], stored: pa.BinaryArray
) -> tuple[NDArray[np.void], NDArray[np.int64] | None]:
    """Returns the heads, and the offsets of bodies; None: all are plain."""
    if not len(stored):
        return np.empty(0, _HEAD), None
    offsets, data = _buffers(stored)
    starts, lengths = offsets[:-1], np.diff(offsets)
    _check(source, ranks, lengths < _PLAIN_BODY)
    # A view with an element at each byte.  Indexing copies whole heads only if the element
    # has no fields; with fields it copies them one by one.
    windows = np.ndarray((len(data) - _HEAD.itemsize + 1,), _RAW_HEAD, data, strides=(1,))
    heads = windows[starts].view(_HEAD)
    words = heads.view(np.uint64).reshape(len(heads), -1)
    odd = (words & _TAGS_MASK) != _TAGS_VALUES
    if odd.any():
        _check(source, ranks, odd.any(axis=1))
    plain = ((words[:, 6] & _PLAIN_MASK[6]) == _PLAIN_VALUES[6]).all()
    if plain and not (heads["flags"] & _HAS_ATTRIBUTES).any():
        return heads, None
    return heads, _bodies(source, ranks, stored, heads)


def _bodies(
    source: MessageSource, ranks: NDArray[np.int64], stored: pa.BinaryArray, heads: NDArray[np.void]
) -> NDArray[np.int64]:
    """Returns the offset of each body: behind origin, checksum and attributes of some length."""
    offsets, data = _buffers(stored)
    lengths = np.diff(offsets)
    behind = heads["origin"].astype(np.int64) + _ORIGIN
    _check(source, ranks, lengths < behind + 7)
    checksum = offsets[:-1] + behind
    bodies: NDArray[np.int64] = behind + data[checksum + 1] + 7
    _check(source, ranks, lengths < bodies)
    body = offsets[:-1] + bodies - 5
    _check(source, ranks, (data[checksum] != _BIN8) | (data[body] != _BIN32))
    attributed = np.flatnonzero(heads["flags"] & _HAS_ATTRIBUTES)
    if len(attributed):
        _check(source, ranks[attributed], (lengths - bodies)[attributed] < _LENGTH)
        starts = (offsets[:-1] + bodies)[attributed]
        sizes = np.stack([data[starts + at] for at in range(_LENGTH)], axis=1)
        bodies[attributed] += _LENGTH + np.ascontiguousarray(sizes).view(">u4")[:, 0].astype(
            np.int64
        )
        _check(source, ranks, lengths < bodies)
    return bodies


def _buffers(stored: pa.BinaryArray) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Returns offsets and bytes of an array that is not a slice of another."""
    _, offsets, data = stored.buffers()
    return (
        np.frombuffer(offsets, np.int32, len(stored) + 1),
        np.frombuffer(data, np.uint8),
    )


def _check(source: MessageSource, ranks: NDArray[np.int64], odd: NDArray[np.bool_]) -> None:
    if odd.any():
        raise InvalidEnvelope(source, int(ranks[odd.argmax()]))


def _constant(text: Callable[[MessageSource], str]) -> _ColumnReader:
    return lambda source, rows, now: pa.repeat(text(source), len(rows.ranks))


def _time(field: str) -> _ColumnReader:
    return lambda source, rows, now: _timestamps(rows.heads[field].astype(np.int64))


def _seconds(field: str) -> _ColumnReader:
    return lambda source, rows, now: pa.array(
        np.minimum(rows.heads[field], _INT_MAX).astype(np.int32)
    )


def _timestamps(
    milliseconds: NDArray[np.int64], absent: NDArray[np.bool_] | None = None
) -> pa.TimestampArray:
    return pa.array(milliseconds * 1000, mask=absent).view(columns.TIMESTAMP)


def _body(source: MessageSource, rows: Rows, now: int) -> pa.BinaryArray:
    if rows.bodies is None:
        return pc.binary_slice(rows.envelopes, _PLAIN_BODY, _END)
    return _cut(rows.envelopes, rows.bodies, np.full(len(rows.bodies), _END))


def _checksum(source: MessageSource, rows: Rows, now: int) -> pa.BinaryArray:
    if rows.bodies is None:
        return pa.nulls(len(rows.ranks), pa.binary())
    starts = rows.heads["origin"] + np.int64(_ORIGIN + 2)
    offsets, data = _buffers(rows.envelopes)
    return _empty_to_null(_cut(rows.envelopes, starts, starts + data[offsets[:-1] + starts - 1]))


def _dead_letter_from(source: MessageSource, rows: Rows, now: int) -> pa.StringArray:
    if rows.bodies is None:
        return pa.nulls(len(rows.ranks), pa.string())
    ends = rows.heads["origin"] + np.int64(_ORIGIN)
    return _empty_to_null(_cut(rows.envelopes, np.full(len(ends), _ORIGIN), ends)).cast(pa.string())


def _of_attributes(name: str) -> _ColumnReader:
    def read(source: MessageSource, rows: Rows, now: int) -> pa.Array:
        if not (rows.heads["flags"] & _HAS_ATTRIBUTES).any():
            return pa.nulls(len(rows.ranks), columns.BY_NAME[name].arrow)
        found = []
        for rank, raw in zip(rows.ranks.tolist(), rows.envelopes.to_pylist(), strict=True):
            try:
                found.append(envelope.attributes(raw))
            except msgspec.DecodeError as error:
                raise InvalidEnvelope(source, rank) from error
        if name in attributes.READ_FIELDS:
            return attributes.field_column(found, name)
        return attributes.column(found)

    return read


def _cut(
    stored: pa.BinaryArray, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> pa.BinaryArray:
    """Cuts a part of each value; in most queues the offsets are the same for all."""
    if not len(stored):
        return stored
    if (starts == starts[0]).all() and (ends == ends[0]).all():
        return pc.binary_slice(stored, int(starts[0]), int(ends[0]))
    slices = zip(stored.to_pylist(), starts.tolist(), ends.tolist(), strict=True)
    return pa.array([value[start:end] for value, start, end in slices], pa.binary())


def _empty_to_null(values: pa.BinaryArray) -> pa.BinaryArray:
    """Returns the values, with null for empty ones."""
    return pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)


def _claim_id(source: MessageSource, rows: Rows, now: int) -> pa.StringArray:
    ids = pc.binary_slice(_holds(rows), 0, _CLAIM_ID).cast(pa.string())
    return pc.if_else(pa.array(rows.held(now)), ids, None)


def _claim_expires(source: MessageSource, rows: Rows, now: int) -> pa.TimestampArray:
    if rows.held_until is None:
        return pa.nulls(len(rows.ranks), columns.TIMESTAMP)
    held = rows.held(now)
    times = np.where(held, rows.held_until, 0).astype(np.int64)
    return _timestamps(times, ~held)


def _holds(rows: Rows) -> pa.BinaryArray:
    return pa.nulls(len(rows.ranks), pa.binary()) if rows.holds is None else rows.holds


_READERS: dict[str, _ColumnReader] = {
    "project": _constant(lambda source: source.project),
    "queue": _constant(lambda source: source.queue),
    "kind": _constant(lambda source: "topic" if rules.is_topic(source.queue) else "queue"),
    "pool": _constant(lambda source: source.pool),
    "id": lambda source, rows, now: uuids.with_numbers(identity.prefix(source.epoch), rows.ranks),
    "rank": lambda source, rows, now: pa.array(rows.ranks),
    "epoch": _constant(lambda source: source.epoch),
    "body": _body,
    "created": _time("created"),
    "expires": _time("expires"),
    "ttl": _seconds("ttl"),
    "delay": _seconds("delay"),
    "client_id": lambda source, rows, now: uuids.texts(rows.heads["client"]),
    "claim_id": _claim_id,
    "claim_expires": _claim_expires,
    "claim_count": lambda source, rows, now: pc.fill_null(
        pasts.part(_holds(rows), "count").cast(pa.int32()), 0
    ),
    "dead_letter_from": _dead_letter_from,
    "encrypted": lambda source, rows, now: pa.array(
        (rows.heads["flags"] & _ENCRYPTED).astype(np.bool_)
    ),
    **{name: _of_attributes(name) for name in ("attributes", *attributes.READ_FIELDS)},
    "reason": lambda source, rows, now: pc.coalesce(
        pasts.part(_holds(rows), "reason"), _of_attributes("reason")(source, rows, now)
    ),
    "first_claimed": lambda source, rows, now: pasts.first_claimed(_holds(rows)),
    "checksum": _checksum,
    "record": lambda source, rows, now: rows.envelopes,
}
