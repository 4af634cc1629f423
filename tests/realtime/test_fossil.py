# SPDX-License-Identifier: Apache-2.0
"""Deltas without a session, checked with the SDK's own `apply_delta`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from centrifuge.fossil import apply_delta

from zaqar_redis.realtime.protocol import fossil

#: Alphabets of texts: few symbols, so that much repeats; any bytes; characters of all
#: UTF-8 lengths.
ALPHABETS: dict[str, list[bytes]] = {
    "few": [b"a", b"b"],
    "bytes": [bytes([each]) for each in range(256)],
    "characters": [each.encode() for each in 'abc{}":, éжש€漢😀🙂'],
}


def pairs(alphabet: list[bytes], count: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields random texts and edited versions of them."""
    chance = random.Random(repr(alphabet))

    def text(most: int) -> list[bytes]:
        return chance.choices(alphabet, k=chance.randrange(most))

    for _ in range(count):
        source = text(300)
        target = list(source)
        for _ in range(chance.randrange(5)):
            at = chance.randrange(len(target) + 1)
            target[at : at + chance.randrange(40)] = text(40)
        if chance.random() < 0.2:
            half = len(target) // 2
            target = target[half:] + target[:half]
        yield b"".join(source), b"".join(target)


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_delta_applied_to_source_gives_target(alphabet: str) -> None:
    smaller = 0
    for source, target in pairs(ALPHABETS[alphabet], 1500):
        delta = fossil.create(source, target)
        assert apply_delta(source, delta) == target
        smaller += len(delta) < len(target)
        if alphabet == "characters":
            delta.decode()
    assert smaller > 1000


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (b"", b""),
        (b"", b"new"),
        (b"old", b""),
        (b"the same", b"the same"),
        (bytes(65536), bytes(65536)),
        (b"1" + bytes(40000) + b"2", b"2" + bytes(40000) + b"1"),
        (random.Random(1).randbytes(20000), random.Random(2).randbytes(20000)),
        (b"\x80" * 300, b"\x81" + b"\x80" * 300 + b"\x81"),
    ],
)
def test_delta_of_extreme_inputs_gives_target(source: bytes, target: bytes) -> None:
    assert apply_delta(source, fossil.create(source, target)) == target


def test_small_change_gives_small_delta() -> None:
    rows = [{"id": n, "name": f"row {n}"} for n in range(500)]
    source = json.dumps(rows).encode()
    rows[100]["name"], rows[400]["name"] = "another", "name"
    moved = json.dumps([rows[450], *rows[:450], *rows[451:]]).encode()
    changed = json.dumps(rows).encode()
    assert len(changed) > 15000
    assert len(fossil.create(source, changed)) < 80
    assert len(fossil.create(source, moved)) < 160
