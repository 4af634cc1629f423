# SPDX-License-Identifier: Apache-2.0
"""URIs of stores are parsed in every spelling of stock Zaqar."""

from __future__ import annotations

import pytest

from zaqar_redis.keyspace import uris


@pytest.mark.parametrize(
    ("uri", "normalised"),
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
def test_uri_is_normalised(uri: str, normalised: str) -> None:
    assert uris.to_redis_uri(uri) == normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("redis://localhost", "redis://127.0.0.1:6379/0"),
        ("zaqar-redis://h/1", "redis://h:6379?db=1"),
        ("zaqar-redis+unix:///run/r.sock", "unix:///run/r.sock?db=0"),
    ],
)
def test_spellings_of_one_store_are_equal(one: str, other: str) -> None:
    assert uris.canonical(one) == uris.canonical(other)


def test_different_stores_are_not_equal() -> None:
    stores = ["redis://h", "redis://h/1", "redis://h:1", "rediss://h", "unix:///h"]
    assert len({uris.canonical(uri) for uri in stores}) == len(stores)


def test_stock_zaqar_gets_our_scheme() -> None:
    for plain, ours in (
        ("redis://:pw@h:1/2", "zaqar-redis://:pw@h:1/2"),
        ("rediss://h", "zaqar-redis+tls://h"),
        ("unix:///a/b?db=1", "zaqar-redis+unix:///a/b?db=1"),
    ):
        assert uris.to_zaqar_uri(plain) == ours
        assert uris.to_zaqar_uri(ours) == ours
        assert uris.to_redis_uri(ours) == plain
    assert uris.to_zaqar_uri("mongodb://h") == "mongodb://h"
