# SPDX-License-Identifier: Apache-2.0
"""Stores are found however stock Zaqar spells them."""

from __future__ import annotations

import pytest

from zaqar_redis.keyspace import uris


@pytest.mark.parametrize(
    ("uri", "understood"),
    [
        ("redis://h:1/2", "redis://h:1/2"),
        ("zaqar-redis://h:1/2", "redis://h:1/2"),
        ("zaqar-redis://u:p@h?dbid=3", "redis://u:p@h?db=3"),
        ("zaqar-redis+tls://h", "rediss://h"),
        ("zaqar-redis+unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("zaqar-redis+unix://:p@/run/r.sock?dbid=1", "unix://:p@/run/r.sock?db=1"),
        ("memory://", "memory://"),
    ],
)
def test_a_uri_is_understood(uri: str, understood: str) -> None:
    assert uris.understood(uri) == understood


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("redis://localhost", "redis://127.0.0.1:6379/0"),
        ("zaqar-redis://h/1", "redis://h:6379?db=1"),
        ("zaqar-redis+unix:///run/r.sock", "unix:///run/r.sock?db=0"),
    ],
)
def test_spellings_of_one_store_are_one(one: str, other: str) -> None:
    assert uris.canonical(one) == uris.canonical(other)


def test_other_stores_are_others() -> None:
    stores = ["redis://h", "redis://h/1", "redis://h:1", "rediss://h", "unix:///h"]
    assert len({uris.canonical(uri) for uri in stores}) == len(stores)


def test_stock_zaqar_is_told_a_scheme_of_ours() -> None:
    for plain, ours in (
        ("redis://:pw@h:1/2", "zaqar-redis://:pw@h:1/2"),
        ("rediss://h", "zaqar-redis+tls://h"),
        ("unix:///a/b?db=1", "zaqar-redis+unix:///a/b?db=1"),
    ):
        assert uris.for_stock(plain) == ours
        assert uris.for_stock(ours) == ours
        assert uris.understood(ours) == plain
    assert uris.for_stock("mongodb://h") == "mongodb://h"
