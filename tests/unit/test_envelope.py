# SPDX-License-Identifier: Apache-2.0
"""A stored message is read as it was written, by Python and by Lua."""

from __future__ import annotations

import asyncio
import uuid

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.backends import Backend
from tests.support.clock import ManualClock
from tests.support.stores import PATIENT
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.records import Lease, NewMessage
from zaqar_redis.storage.redis import RedisDriver

_HEAD_SIZE = 29  # what Redis writes: everything before the flags

QUEUE_NAMES = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=64)
_VALUES = st.one_of(
    st.text(max_size=80),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=80),
)
MESSAGES = st.builds(
    NewMessage,
    body=st.binary(max_size=300),
    ttl=st.integers(60, 100 * 365 * 86400),
    delay=st.integers(0, 100 * 365 * 86400),
    checksum=st.one_of(st.just(b""), st.binary(min_size=16, max_size=16)),
    origin=QUEUE_NAMES,
    encrypted=st.booleans(),
    attributes=st.one_of(st.none(), st.dictionaries(st.text(max_size=80), _VALUES, min_size=1)),
)


@given(message=MESSAGES, client=st.binary(min_size=16, max_size=16))
def test_envelope_is_read_as_it_was_written(message: NewMessage, client: bytes) -> None:
    tail = envelope.tail(message, client)
    stored = bytes(_HEAD_SIZE) + tail
    *_, flags, who, origin_length = envelope.head(stored)
    assert (envelope.is_encrypted(flags), who) == (message.encrypted, client)
    origin, checksum, body = envelope.rest(stored, origin_length)
    assert envelope.body_size(tail) == len(body)
    attributes = None
    if envelope.has_attributes(flags):
        attributes, body = envelope.with_attributes(body)
    assert (origin, checksum, body) == (message.origin, message.checksum, message.body)
    assert attributes == message.attributes == envelope.attributes(stored)


@given(uuid=st.uuids())
def test_client_uuid_is_sixteen_bytes_in_any_spelling(uuid: uuid.UUID) -> None:
    spellings = (str(uuid), uuid.hex, str(uuid).upper(), f"{{{uuid}}}", uuid.urn)
    assert {envelope.client_bytes(spelling) for spelling in spellings} == {uuid.bytes}


@given(one=st.text(max_size=40), other=st.text(max_size=40))
def test_clients_that_are_no_uuids_are_distinct(one: str, other: str) -> None:
    assert len(envelope.client_bytes(one)) == 16
    if one != other:
        uuids = all(_is_uuid(text) for text in (one, other))
        assert uuids or envelope.client_bytes(one) != envelope.client_bytes(other)


def _is_uuid(text: str) -> bool:
    try:
        return bool(uuid.UUID(text))
    except ValueError:
        return False


@given(
    message=MESSAGES,
    now=st.integers(0, 2**52),
    lease=st.tuples(st.integers(60, 43200), st.integers(60, 43200)),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_head_written_by_redis_is_read_by_python(
    redis_server: Backend, message: NewMessage, now: int, lease: tuple[int, int]
) -> None:
    asyncio.run(_written_by_redis(redis_server.uri, message, now + 1, lease))


async def _written_by_redis(
    uri: str, message: NewMessage, now: int, lease: tuple[int, int]
) -> None:
    clock, project = ManualClock(), f"envelope-{uuid.uuid4()}"
    clock.now = now
    of_queue = keys.of_queue(project, "q")
    async with keyspace.connected(uri, PATIENT) as client:
        driver = RedisDriver(client, now=clock)
        await driver.queues.create(project, "q", {"_default_message_delay": 1})
        who = str(uuid.uuid4())
        await driver.messages.post(project, "q", [message], client=who, default_ttl=60, size=0)
        stored = await client.command("HGET", of_queue.bodies, 1)
        ttl, delay = message.ttl or 0, message.delay or 0
        assert envelope.head(stored)[:4] == (now, now + ttl * 1000, ttl, delay)
        *whole, body = msgspec.msgpack.decode(stored)
        flags = message.encrypted + 2 * bool(message.attributes)
        assert whole == [
            *(now, now + ttl * 1000, ttl, delay, flags),
            *(uuid.UUID(who).bytes, message.origin, message.checksum),
        ]
        assert body.endswith(message.body)

        clock.now += delay * 1000
        seconds, grace = lease
        taken = await driver.claims.create(project, "q", Lease(seconds, grace), limit=1)
        if taken.messages:
            stored = await client.command("HGET", of_queue.bodies, 1)
            ends = clock.now + seconds * 1000
            if now + ttl * 1000 < ends:
                ttl, expires = seconds + grace, ends + grace * 1000
            else:
                expires = now + ttl * 1000
            assert msgspec.msgpack.decode(stored) == [now, expires, ttl, *whole[3:], body]
        await driver.queues.delete(project, "q")
