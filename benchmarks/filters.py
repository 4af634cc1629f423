# SPDX-License-Identifier: Apache-2.0
"""What filters of subscriptions cost for a message: microseconds of CPU, by kind of filter.

    python -m benchmarks.filters

The kinds take turns in one process.  A body is decoded anew for each message, so that the
difference between one filter and ten for the same message is what a further subscription costs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks.support.rounds import figures
from zaqar_redis.benchmarks import report
from zaqar_redis.records import Attributes
from zaqar_redis.service.subscription_filters import LazyBody, SubscriptionFilter, compile_filter

_ATTRIBUTES: Attributes = {
    "kind": "order",
    "price": 99.5,
    "store": "north-12",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}
_ORDER = {"store": "north-12", "price": 99.5, "items": [{"name": "oak"}, {"name": "elm"}]}
#: 256 bytes
_BODY = msgspec.json.encode({"order": _ORDER, "note": "x" * 163})
_PRICE = [{"numeric": [">", 0, "<=", 150]}]

FILTERS: dict[str, list[dict[str, Any]]] = {
    "two attributes": [{"attributes": {"kind": ["order", "refund"], "price": _PRICE}}],
    "an attribute that does not match": [{"attributes": {"kind": ["refund"], "price": _PRICE}}],
    "ten names that are not there": [
        {"attributes": {f"name{n}": [{"prefix": "a"}, {"exists": False}] for n in range(10)}}
    ],
    "two paths of a body": [{"body": {"order": {"store": ["north-12"], "price": _PRICE}}}],
    "a path through an array": [{"body": {"order": {"items": {"name": ["oak"]}}}}],
    "ten subscriptions, two paths each": [
        {"body": {"order": {"store": ["north-12", f"n{n}"], "price": _PRICE}}} for n in range(10)
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="%(default)s by default")
    parser.add_argument("--messages", type=int, default=20_000, help="of a round (%(default)s)")
    args = parser.parse_args()
    compiled = {what: [compile_filter(each) for each in some] for what, some in FILTERS.items()}
    found: dict[str, list[float]] = {what: [] for what in FILTERS}
    for _ in range(args.rounds):
        for what, filters in compiled.items():
            found[what].append(_microseconds(_matching(filters), args.messages))
    rows = [[what, *figures(times, 2)] for what, times in found.items()]
    print(report.table(["µs a message", "median", "least", "greatest"], rows))


def _matching(filters: list[SubscriptionFilter]) -> Callable[[], None]:
    def match() -> None:
        body = LazyBody(_BODY)
        for each in filters:
            each.matches(_ATTRIBUTES, body)

    return match


def _microseconds(work: Callable[[], None], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times * 1e6


if __name__ == "__main__":
    main()
