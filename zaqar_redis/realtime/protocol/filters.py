# SPDX-License-Identifier: Apache-2.0
"""Filters of publications by their tags.

A filter comes as a tree and is compiled once into a function.  It saves the subscriber work; it
hides nothing, as the subscriber may also subscribe without it.  The semantics are Centrifugo's.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal

from zaqar_redis.realtime.protocol.wire import FilterNode

#: Whether a publication with these tags is delivered.
TagFilter = Callable[[Mapping[str, str]], bool]

#: Levels; filters by hand have three or four.  Calls are nested as deeply.
_DEPTH_MAX = 16
#: All may be evaluated for every publication and every subscriber: this takes some 20 µs.
_NODES_MAX = 128
#: Values in lists, and characters in all: some 50 kB for each of 128 channels of a client.
_VALS_MAX, _TEXT_MAX = 512, 8192
#: Longer texts are not meant as numbers.
_DIGITS_MAX = 200

_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)")

_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "eq": operator.eq,
    "sw": str.startswith,
    "ew": str.endswith,
    "ct": operator.contains,
}
_NUMBERS: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}


def compile_filter(node: FilterNode) -> TagFilter:
    """Raises ValueError for an invalid filter, and for one that is too large."""
    _check_size(node)
    return _compile(node)


def _check_size(node: FilterNode) -> None:
    nodes, level = [node], node.nodes
    for _ in range(_DEPTH_MAX - 1):
        nodes += level
        level = [child for each in level for child in each.nodes]
    if level:
        raise ValueError(f"a filter has at most {_DEPTH_MAX} levels")
    if len(nodes) > _NODES_MAX:
        raise ValueError(f"a filter has at most {_NODES_MAX} nodes")
    texts = [text for each in nodes for text in (each.key, each.val, *each.vals)]
    if len(texts) - 2 * len(nodes) > _VALS_MAX:
        raise ValueError(f"a filter has at most {_VALS_MAX} vals")
    if sum(map(len, texts)) > _TEXT_MAX:
        raise ValueError(f"a filter has at most {_TEXT_MAX} characters in keys and values")


def _compile(node: FilterNode) -> TagFilter:
    if node.op == "":
        return _leaf(node)
    parts = [_compile(each) for each in node.nodes]
    if not parts:
        raise ValueError(f"{node.op} has no nodes")
    if node.op == "and":
        return lambda tags: all(part(tags) for part in parts)
    if node.op == "or":
        return lambda tags: any(part(tags) for part in parts)
    if node.op == "not" and len(parts) == 1:
        return _not(parts[0])
    raise ValueError(f"op {node.op!r} of {len(parts)} nodes")


def _not(part: TagFilter) -> TagFilter:
    return lambda tags: not part(tags)


def _leaf(node: FilterNode) -> TagFilter:
    if node.cmp in ("ex", "nex"):
        leaf = _exists(node)
    elif node.cmp in ("in", "nin"):
        leaf = _in_list(node)
    elif node.cmp in _NUMBERS:
        leaf = _number(node)
    else:
        leaf = _text(node)
    return _not(leaf) if node.cmp in ("nex", "nin", "neq") else leaf


def _exists(node: FilterNode) -> TagFilter:
    if node.val or node.vals:
        raise ValueError(f"{node.cmp} has no value")
    key = node.key
    return lambda tags: key in tags


def _in_list(node: FilterNode) -> TagFilter:
    if not node.key or not node.vals or node.val:
        raise ValueError(f"{node.cmp} has a key and vals")
    key, values = node.key, frozenset(node.vals)
    return lambda tags: tags.get(key, "") in values


def _text(node: FilterNode) -> TagFilter:
    compare = _TEXTS.get("eq" if node.cmp == "neq" else node.cmp)
    if compare is None:
        raise ValueError(f"cmp {node.cmp!r}")
    key, value = _key_and_value(node)
    return lambda tags: (found := tags.get(key)) is not None and compare(found, value)


def _number(node: FilterNode) -> TagFilter:
    key, given = _key_and_value(node)
    compare, value = _NUMBERS[node.cmp], _parsed(given)

    def matches(tags: Mapping[str, str]) -> bool:
        found = _parsed(tags.get(key, ""))
        return found is not None and value is not None and compare(found, value)

    return matches


def _key_and_value(node: FilterNode) -> tuple[str, str]:
    if not node.key or not node.val or node.vals:
        raise ValueError(f"{node.cmp} has a key and a val")
    return node.key, node.val


def _parsed(text: str) -> Decimal | None:
    """Returns None for what is not a number; no comparison with it is true."""
    if len(text) > _DIGITS_MAX or not _NUMBER.fullmatch(text):
        return None
    return Decimal(text)
