# SPDX-License-Identifier: Apache-2.0
"""The contract of channel engines."""

from __future__ import annotations

import pytest

from tests.realtime.conftest import EngineHarness
from zaqar_redis.realtime.engine import (
    NO_POSITION,
    Dedup,
    HistoryFilter,
    HistoryOptions,
    Position,
    PresenceStats,
)

KEEP = HistoryOptions(size=10, ttl=60, meta_ttl=3600)


def publish(
    backend: EngineHarness, *payloads: bytes, keep: HistoryOptions | None = KEEP
) -> list[Position]:
    publish = backend.engine.history.publish
    return [backend.run(publish("p/news", each, keep)).position for each in payloads]


def history(
    backend: EngineHarness,
    at: Position | None = None,
    limit: int | None = None,
    reverse: bool = False,
) -> list[bytes]:
    since = HistoryFilter(at, limit=limit, reverse=reverse)
    kept, _ = backend.run(backend.engine.history.history("p/news", since, KEEP))
    return [each.payload for each in kept]


def position(backend: EngineHarness, keep: HistoryOptions = KEEP) -> Position:
    return backend.run(backend.engine.history.history("p/news", HistoryFilter(limit=0), keep))[1]


def test_publications_reach_subscribed_nodes_only(backend: EngineHarness) -> None:
    backend.run(backend.engine.events.subscribe("p/news"))
    first, second = publish(backend, b"1", b"2")
    backend.run(backend.engine.history.publish("p/other", b"3", KEEP))
    (without,) = publish(backend, b"4", keep=None)
    backend.expect_events(
        ("publication", "p/news", b"1", first),
        ("publication", "p/news", b"2", second),
        ("publication", "p/news", b"4", without),
    )
    assert without == NO_POSITION
    backend.run(backend.engine.events.unsubscribe("p/news"))
    publish(backend, b"5")
    backend.run(backend.engine.events.publish_control(b"after it"))
    backend.expect_events(("control", b"after it"))
    backend.run(backend.engine.events.subscribe("p/news"))
    (last,) = publish(backend, b"6")
    backend.expect_events(("publication", "p/news", b"6", last))


def test_payloads_may_be_any_bytes(backend: EngineHarness) -> None:
    backend.run(backend.engine.events.subscribe("p/news"))
    payloads = [b"", b":", b"\x00\xff\n", bytes(range(256)) * 300]
    positions = publish(backend, *payloads)
    pairs = zip(payloads, positions, strict=True)
    backend.expect_events(*[("publication", "p/news", payload, at) for payload, at in pairs])
    assert history(backend) == payloads


def test_offsets_grow_by_one_within_an_epoch(backend: EngineHarness) -> None:
    start = position(backend)
    assert start.offset == 0
    assert start.epoch
    positions = publish(backend, b"1", b"2", b"3")
    assert positions == [Position(offset, start.epoch) for offset in (1, 2, 3)]
    assert position(backend) == positions[-1]
    assert backend.run(
        backend.engine.history.publish("p/other", b"1", KEEP)
    ).position.epoch not in ("", start.epoch)


@pytest.mark.parametrize(
    ("at", "limit", "reverse", "expected"),
    [
        *((None, None, False, "123456"), (None, 0, False, ""), (None, 2, False, "12")),
        *((None, 2, True, "65"), (None, None, True, "654321"), (0, None, False, "123456")),
        *((2, None, False, "3456"), (2, 3, False, "345"), (6, None, False, "")),
        *((9, None, False, ""), (4, None, True, "321"), (4, 2, True, "32"), (1, None, True, "")),
        (99, 1, True, "6"),
    ],
)
def test_history_is_read_from_any_offset_in_both_directions(
    backend: EngineHarness, at: int | None, limit: int | None, reverse: bool, expected: str
) -> None:
    publish(backend, *(str(number).encode() for number in range(1, 7)))
    since = None if at is None else Position(at, "")
    found = history(backend, since, limit, reverse)
    assert b"".join(found).decode() == expected


def test_history_keeps_the_latest_only(backend: EngineHarness) -> None:
    publish(
        backend, *(str(number).encode() for number in range(25)), keep=HistoryOptions(3, 60, 600)
    )
    assert history(backend) == [b"22", b"23", b"24"]
    assert position(backend).offset == 25


def test_removed_history_keeps_its_stream_position(backend: EngineHarness) -> None:
    before = publish(backend, b"1", b"2")[-1]
    for _ in range(2):
        backend.run(backend.engine.history.remove_history("p/news"))
    assert history(backend) == []
    assert position(backend) == before
    assert publish(backend, b"3") == [Position(3, before.epoch)]
    assert history(backend) == [b"3"]


def test_rotated_epoch_keeps_offset_and_history(backend: EngineHarness) -> None:
    before = publish(backend, b"1", b"2")[-1]
    backend.run(backend.engine.history.rotate_epoch("p/news", before.epoch))
    after = position(backend)
    assert after.offset == before.offset
    assert after.epoch not in ("", before.epoch)
    assert history(backend) == [b"1", b"2"]
    assert publish(backend, b"3") == [Position(3, after.epoch)]
    for channel in ("p/news", "p/other"):
        backend.run(backend.engine.history.rotate_epoch(channel, before.epoch))
    assert position(backend) == Position(3, after.epoch)


def test_publication_with_same_idempotency_key_is_skipped(backend: EngineHarness) -> None:
    backend.run(backend.engine.events.subscribe("p/news"))
    send = backend.engine.history.publish
    dedup = Dedup(key="a:b")
    first = backend.run(send("p/news", b"1", KEEP, dedup))
    publish(backend, b"2")
    again = backend.run(send("p/news", b"1", KEEP, dedup))
    assert (first.new, again.new) == (True, False)
    assert again.position == first.position
    other = backend.run(send("p/other", b"1", KEEP, dedup))
    assert other.new
    assert history(backend) == [b"1", b"2"]
    for keep, new in ((None, True), (None, False)):
        assert backend.run(send("p/bare", b"1", keep, dedup)) == (NO_POSITION, new)


def test_publication_with_old_version_is_skipped(backend: EngineHarness) -> None:
    send = backend.engine.history.publish

    def versioned(version: int, epoch: str = "") -> bool:
        dedup = Dedup(version=version, version_epoch=epoch)
        return backend.run(send("p/news", str(version).encode(), KEEP, dedup)).new

    assert [versioned(version) for version in (3, 3, 2, 5)] == [True, False, False, True]
    assert [versioned(1, "x"), versioned(1, "x"), versioned(4, "")] == [True, False, True]
    assert history(backend) == [b"3", b"5", b"1", b"4"]
    refused = backend.run(send("p/news", b"4", KEEP, Dedup(version=4)))
    assert refused == (Position(4, position(backend).epoch), False)


def test_joins_leaves_and_control_reach_subscribed_nodes(backend: EngineHarness) -> None:
    bus = backend.engine.events
    backend.run(bus.subscribe("p/news"))
    backend.run(bus.publish_join("p/news", b"\x01"))
    backend.run(bus.publish_leave("p/news", b"\x02"))
    backend.run(bus.publish_join("p/other", b"\x03"))
    backend.run(bus.publish_control(b"to all"))
    backend.run(bus.publish_control(b"to me", "node"))
    backend.expect_events(
        ("join", "p/news", b"\x01"),
        ("leave", "p/news", b"\x02"),
        ("control", b"to all"),
        ("control", b"to me"),
    )


def test_presence_entries_expire(backend: EngineHarness) -> None:
    presence = backend.engine.presence
    for client, user in (("1", "ann"), ("2", "ann"), ("3", ""), ("4", "1:\x00é")):
        backend.run(presence.add("p/news", client, user, client.encode() + b"\x00:", 60))
    assert backend.run(presence.clients("p/news")) == {
        client: client.encode() + b"\x00:" for client in "1234"
    }
    assert backend.run(presence.stats("p/news")) == PresenceStats(4, 3)
    backend.clock.tick(40)
    for client in ("2", "3"):
        user = "ann" if client == "2" else ""
        backend.run(presence.add("p/news", client, user, b"new", 60))
    backend.clock.tick(30)
    assert backend.run(presence.stats("p/news")) == PresenceStats(2, 2)
    assert backend.run(presence.clients("p/news")) == {"2": b"new", "3": b"new"}
    for _ in range(2):
        backend.run(presence.remove("p/news", "2", "ann"))
    assert backend.run(presence.stats("p/news")) == PresenceStats(1, 1)
    assert backend.run(presence.stats("p/other")) == PresenceStats(0, 0)
    backend.clock.tick(61)
    assert backend.run(presence.clients("p/news")) == {}
