# SPDX-License-Identifier: Apache-2.0
"""Messages decoded for Spark equal those that the service reads."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSource
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from zaqar_redis.keyspace import envelope
from zaqar_redis.records import Attributes, Message, NewMessage
from zaqar_redis.spark import columns
from zaqar_redis.spark.reading import decode
from zaqar_redis.spark.reading.partitions import ReadSpec
from zaqar_redis.storage.redis import decoding, identity
from zaqar_redis.storage.redis.bulk.range_reader import RawPage

_ORIGIN = decode.MessageSource("acme", "orders", "default", "9f2c51d07a3be486")
_NAMES = tuple(columns.BY_NAME)
_NOW = 1_800_000_000_000
_INT_MAX = 2**31 - 1


class StoredMessage(msgspec.Struct, frozen=True):
    """A message as stored in Redis, with its claim and delay."""

    envelope: bytes | None
    hold: bytes | None = None
    held_until: int | None = None
    delayed_until: int | None = None


def _stored(
    body: bytes = b"{}",
    *,
    created: int = _NOW - 1000,
    expires: int = _NOW + 1000,
    ttl: int = 60,
    delay: int = 0,
    client: bytes = bytes(16),
    **rest: Any,
) -> bytes:
    head = struct.pack(">BBQBQBIBI", 0x99, 0xCF, created, 0xCF, expires, 0xCE, ttl, 0xCE, delay)
    return head + envelope.tail(NewMessage(body, **rest), client)


_ATTRIBUTES: list[Attributes] = [
    {"a": "x" * 700},
    {"kind": "ü", "n": -3, "large": 2**64 - 1, "price": 1e300, "photo": bytes(range(256))},
]
_FIELDS = ("group", "priority", "content_type", "body_encoding", "dedup_id", "reason")
_ATTRIBUTES.append(
    dict(zip(map("_{}".format, _FIELDS), ("ü", 31, "a/b", "base64", "d", "r"), strict=True))
)
_TIMES = st.integers(_NOW - 100, _NOW + 100)
_SECONDS = st.integers(0, 2**32 - 1)
_ENVELOPES = st.builds(
    _stored,
    st.one_of(st.binary(max_size=300), st.integers(0, 70_000).map(bytes)),
    created=st.integers(0, 2**43),
    expires=_TIMES,
    ttl=_SECONDS,
    delay=_SECONDS,
    client=st.binary(min_size=16, max_size=16),
    checksum=st.sampled_from([b"", b"0123456789abcdef"]),
    origin=st.sampled_from(["", "a", "Q" * 64, "warteschlange-ü"]),
    encrypted=st.booleans(),
    attributes=st.sampled_from([None, None, {"traceparent": "00-trace"}, *_ATTRIBUTES]),
)
_PLAIN = st.builds(_stored, st.binary(max_size=300), expires=_TIMES)
_HOLDS = st.builds(
    lambda claim, count, past: claim.hex.encode() + str(count).encode() + past.encode(),
    st.uuids(),
    st.integers(1, _INT_MAX),
    st.sampled_from(["", f" {_NOW}", f" {_NOW} no  paper, später\n"]),
)


def _messages(envelopes: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[StoredMessage]]:
    one = st.builds(
        StoredMessage,
        st.one_of(envelopes, envelopes, st.none()),
        st.one_of(st.none(), _HOLDS),
        st.one_of(st.none(), _TIMES),
        st.one_of(st.none(), _TIMES),
    )
    return st.lists(one, max_size=12)


_RANKS = st.one_of(st.integers(1, 1000), st.integers(1, 2**62))


def _batch(
    messages: Sequence[StoredMessage], first: int = 1, names: tuple[str, ...] = _NAMES
) -> pa.RecordBatch:
    rows = decode.rows(
        _ORIGIN,
        range(first, first + len(messages)),
        [message.envelope for message in messages],
        [message.hold for message in messages],
        [message.held_until for message in messages],
    )
    return decode.batch(_ORIGIN, names, rows, _NOW)


def _time(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def _expected(rank: int, stored: StoredMessage) -> dict[str, object]:
    """Returns the values that the service reads, by column."""
    raw = stored.envelope
    assert raw is not None
    prefix = identity.prefix(_ORIGIN.epoch)
    message: Message = decoding.message(_NOW, prefix, rank, raw, stored.hold)
    held = stored.held_until is not None and stored.held_until > _NOW
    return {
        "project": "acme",
        "queue": "orders",
        "kind": "queue",
        "pool": "default",
        "id": message.id,
        "rank": rank,
        "epoch": _ORIGIN.epoch,
        "body": message.body,
        "created": _time(message.created),
        "expires": _time(message.expires),
        "ttl": min(message.ttl, _INT_MAX),
        "delay": min(message.delay, _INT_MAX),
        "client_id": str(uuid.UUID(bytes=message.client)),
        "claim_id": message.claim_id if held else None,
        "claim_expires": _time(stored.held_until or 0) if held else None,
        "claim_count": message.claim_count,
        "first_claimed": _time(message.first_claimed) if message.first_claimed else None,
        "reason": message.reason or (message.attributes or {}).get("_reason"),
        "dead_letter_from": message.origin or None,
        "encrypted": message.encrypted,
        "attributes": _kinds(message.attributes),
        **{name: (message.attributes or {}).get(f"_{name}") for name in _FIELDS[:-1]},
        "checksum": message.checksum or None,
        "record": raw,
    }


def _kinds(attributes: Attributes | None) -> list[tuple[str, dict[str, object]]] | None:
    """Returns attributes as Arrow has them."""
    if attributes is None:
        return None
    nothing = {"string": None, "number": None, "binary": None}
    kinds: dict[type, str] = {str: "string", int: "number", float: "number", bytes: "binary"}
    return [
        (
            name,
            nothing
            | {kinds[type(value)]: repr(value) if isinstance(value, (int, float)) else value},
        )
        for name, value in attributes.items()
    ]


@given(messages=st.one_of(_messages(_ENVELOPES), _messages(_PLAIN)), first=_RANKS)
def test_decoded_columns_equal_those_of_the_service(
    messages: list[StoredMessage], first: int
) -> None:
    assert _batch(messages, first).to_pylist() == [
        _expected(rank, stored)
        for rank, stored in enumerate(messages, first)
        if stored.envelope is not None
    ]


@given(
    messages=_messages(_ENVELOPES),
    names=st.lists(st.sampled_from(_NAMES), unique=True, min_size=1).map(tuple),
)
def test_spark_accepts_any_columns_in_any_order(
    messages: list[StoredMessage], names: tuple[str, ...]
) -> None:
    decoded = _batch(messages, names=names)
    decoded.validate(full=True)
    assert _by_spark([decoded], names) == [decoded]
    assert decoded.schema.names == list(names)
    assert (
        decoded.select(list(names)).to_pylist() == _batch(messages).select(list(names)).to_pylist()
    )


def _by_spark(batches: list[pa.RecordBatch], names: tuple[str, ...]) -> list[pa.RecordBatch]:
    """Returns the batches after validation by a Spark worker."""
    schema = columns.schema_of(",".join(names))
    given: Iterator[pa.RecordBatch] = iter(batches)
    return list(records_to_arrow_batches(given, 10_000, schema, DataSource({})))


@given(
    messages=_messages(_ENVELOPES),
    expired=st.booleans(),
    claimed=st.booleans(),
    delayed=st.booleans(),
)
def test_page_rows_respect_expired_claimed_and_delayed_flags(
    messages: list[StoredMessage], expired: bool, claimed: bool, delayed: bool
) -> None:
    wanted = ReadSpec(
        ("rank", "body", "claim_count"),
        10,
        include_expired=expired,
        include_claimed=claimed,
        include_delayed=delayed,
    )
    page = RawPage(
        now=_NOW,
        ranks=range(1, len(messages) + 1),
        envelopes=[message.envelope for message in messages],
        holds=[message.hold for message in messages],
        held_until=_scores([message.held_until for message in messages]),
        delayed_until=_scores([message.delayed_until for message in messages]),
    )
    expected = [
        {name: _expected(rank, stored)[name] for name in wanted.columns}
        for rank, stored in enumerate(messages, 1)
        if stored.envelope is not None
        and (expired or envelope.head(stored.envelope)[1] > _NOW)
        and (claimed or (stored.held_until or 0) <= _NOW)
        and (delayed or (stored.delayed_until or 0) <= _NOW)
    ]
    assert decode.page(_ORIGIN, wanted, page).to_pylist() == expected


def _scores(times: Sequence[int | None]) -> list[bytes | None]:
    """Returns scores as Redis formats them."""
    return [None if time is None else str(time).encode() for time in times]


def test_rows_without_claims_and_delays_are_unclaimed_and_undelayed() -> None:
    page = RawPage(_NOW, [7, 9], [_stored(), _stored()], None, None, None)
    wanted = ReadSpec(_NAMES, 10, True, include_claimed=False, include_delayed=False)
    rows = decode.page(_ORIGIN, wanted, page).to_pylist()
    assert [row["rank"] for row in rows] == [7, 9]
    found = {(row["claim_id"], row["claim_expires"], row["claim_count"]) for row in rows}
    assert found == {(None, None, 0)}


@pytest.mark.parametrize("messages", [[], [StoredMessage(None), StoredMessage(None)]])
def test_page_of_gaps_gives_an_empty_batch(messages: list[StoredMessage]) -> None:
    batch = _batch(messages)
    assert batch.num_rows == 0
    assert _by_spark([batch], _NAMES) == [batch]


def _with(place: int, byte: int, **fields: Any) -> bytes:
    raw = bytearray(_stored(**fields))
    raw[place] = byte
    return bytes(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no envelope",
        _stored(b"")[:-1],
        *(_with(place, 0x80) for place in (0, 1, 10, 19, 24, 29, 31, 32, 49, 51, 53)),
        # an origin and a checksum that extend beyond the end
        _with(50, 200),
        _with(52, 200),
        _with(50, 9, body=b"12"),
        # their tags, and the body's
        _with(54, 0x80, origin="abc"),
        _with(56, 0x80, origin="abc"),
        _with(69, 0x80, checksum=bytes(16)),
    ],
    ids=bytes.hex,
)
def test_invalid_envelope_is_reported_with_its_rank(raw: bytes) -> None:
    good = [StoredMessage(None), StoredMessage(_stored()), StoredMessage(_stored(origin="abc"))]
    with pytest.raises(decode.InvalidEnvelope) as raised:
        _batch([*good, StoredMessage(raw), *good], first=40)
    assert str(raised.value) == "message 43 of acme/orders is no envelope of this service"


def test_invalid_attributes_are_reported_with_their_rank() -> None:
    good, raw = _stored(attributes={"a": 1}), bytearray(_stored(attributes={"a": 1}))
    raw[62] = 0xC0  # no map
    with pytest.raises(decode.InvalidEnvelope, match=r"^message 3 of acme/orders"):
        _batch([StoredMessage(_stored()), StoredMessage(good), StoredMessage(bytes(raw))])


def test_first_invalid_envelope_is_reported() -> None:
    with pytest.raises(ValueError, match=r"^message 2 of acme/orders is no envelope"):
        _batch([StoredMessage(_stored()), StoredMessage(bytes(100)), StoredMessage(bytes(100))])
