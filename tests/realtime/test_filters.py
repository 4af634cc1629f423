# SPDX-License-Identifier: Apache-2.0
"""Tag filters without a session."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from centrifuge.filter import Filter

from zaqar_redis.realtime.protocol import filters
from zaqar_redis.realtime.protocol.wire import FilterNode

TAGS = {"ticker": "AAPL", "price": "101.50", "source": "NYSE", "empty": ""}


def matches(node: dict[str, Any], tags: dict[str, str] = TAGS) -> bool:
    return filters.compile_filter(msgspec.convert(node, FilterNode))(tags)


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (Filter.eq("ticker", "AAPL"), True),
        (Filter.eq("ticker", "aapl"), False),
        (Filter.eq("other", "AAPL"), False),
        (Filter.neq("ticker", "AAPL"), False),
        (Filter.neq("ticker", "MSFT"), True),
        (Filter.neq("other", "AAPL"), True),
        (Filter.is_in("source", ["NASDAQ", "NYSE"]), True),
        (Filter.is_in("source", ["NASDAQ"]), False),
        (Filter.is_in("other", ["", "x"]), True),
        (Filter.not_in("source", ["NASDAQ"]), True),
        (Filter.not_in("source", ["NYSE"]), False),
        (Filter.not_in("other", ["x"]), True),
        (Filter.exists("empty"), True),
        (Filter.exists("other"), False),
        (Filter.not_exists("empty"), False),
        (Filter.not_exists("other"), True),
        (Filter.starts_with("ticker", "AA"), True),
        (Filter.starts_with("other", "AA"), False),
        (Filter.ends_with("ticker", "PL"), True),
        (Filter.ends_with("ticker", "AA"), False),
        (Filter.contains("ticker", "AP"), True),
        (Filter.contains("ticker", "PA"), False),
        (Filter.gt("price", "101.5"), False),
        (Filter.gte("price", "101.5"), True),
        (Filter.gt("price", "99"), True),  # compared as numbers, not as text
        (Filter.lt("price", "99"), False),
        (Filter.lt("price", "+1000"), True),
        (Filter.lte("price", "101.49999999999999999999"), False),
        (Filter.gt("ticker", "1"), False),
        (Filter.lt("ticker", "1"), False),
        (Filter.lt("other", "1"), False),
        (Filter.lt("price", "NaN"), False),
        (Filter.lt("price", "1e9"), False),
        (Filter.all(Filter.eq("ticker", "AAPL"), Filter.gte("price", "100")), True),
        (Filter.all(Filter.eq("ticker", "AAPL"), Filter.gte("price", "200")), False),
        (Filter.any(Filter.eq("ticker", "MSFT"), Filter.gte("price", "100")), True),
        (Filter.any(Filter.eq("ticker", "MSFT"), Filter.gte("price", "200")), False),
        (Filter.negate(Filter.eq("source", "NYSE")), False),
    ],
)
def test_filter_matches_as_the_sdk_builder_defines(built: Any, expected: bool) -> None:
    assert matches(built.node) is expected


def _leaf(n: int) -> dict[str, Any]:
    return {"key": f"k{n}", "cmp": "ex"}


def _chain(levels: int) -> dict[str, Any]:
    node = _leaf(0)
    for _ in range(levels - 1):
        node = {"op": "not", "nodes": [node]}
    return node


@pytest.mark.parametrize(
    "node",
    [
        *({}, {"key": "a"}, {"key": "a", "cmp": "like", "val": "b"}, {"key": "a", "cmp": "eq"}),
        {"key": "", "cmp": "eq", "val": "b"},
        {"key": "a", "cmp": "eq", "val": "b", "vals": ["c"]},
        *({"key": "a", "cmp": "gt", "vals": ["1"]}, {"key": "a", "cmp": "in", "val": "b"}),
        *({"key": "a", "cmp": "in"}, {"key": "a", "cmp": "nin", "vals": ["b"], "val": "c"}),
        *({"key": "a", "cmp": "ex", "val": "b"}, {"key": "a", "cmp": "nex", "vals": ["b"]}),
        *({"op": "and"}, {"op": "or", "nodes": []}, {"op": "not", "nodes": [_leaf(1), _leaf(2)]}),
        *({"op": "xor", "nodes": [_leaf(1)]}, {"op": "and", "nodes": [_leaf(1), {"op": "or"}]}),
        *({"op": "and", "nodes": [_leaf(n) for n in range(128)]}, _chain(17)),
        {"key": "a", "cmp": "in", "vals": ["v"] * 513},
        {"key": "a", "cmp": "eq", "val": "v" * 8192},
    ],
)
def test_invalid_filter_is_refused(node: dict[str, Any]) -> None:
    read = msgspec.convert(node, FilterNode)
    with pytest.raises(ValueError, match=r"^(a filter has|op|cmp|[a-z]+ has) "):
        filters.compile_filter(read)


def test_filter_at_the_limits_is_accepted() -> None:
    assert matches(_chain(16), {"k0": ""}) is False
    assert matches({"op": "and", "nodes": [_leaf(n) for n in range(127)]}) is False
    assert matches({"key": "a", "cmp": "in", "vals": ["v" * 15] * 512}, {"a": "v" * 15})
    assert matches({"key": "a", "cmp": "eq", "val": "v" * 8191}, {"a": "v" * 8191})


_JOIN: dict[str, Callable[[bool, bool], bool]] = {"and": operator.and_, "or": operator.or_}


def test_filter_trees_combine_their_children() -> None:
    chance = random.Random(6)

    def grown(depth: int) -> tuple[dict[str, Any], Callable[[dict[str, str]], bool]]:
        if depth == 0:
            key = f"k{chance.randrange(4)}"
            return {"key": key, "cmp": "ex"}, lambda tags: key in tags
        op = chance.choice(["and", "or", "not"])
        node, left = grown(depth - 1)
        if op == "not":
            return {"op": op, "nodes": [node]}, lambda tags: not left(tags)
        other, right = grown(depth - 1)
        join = _JOIN[op]
        return {"op": op, "nodes": [node, other]}, lambda tags: join(left(tags), right(tags))

    for _ in range(200):
        node, expected = grown(chance.randrange(6))
        for keys in range(16):
            tags = {f"k{n}": "" for n in range(4) if keys & 1 << n}
            assert matches(node, tags) is expected(tags)
