# SPDX-License-Identifier: Apache-2.0
"""How fast Spark's reader decodes stored messages, compared with msgpack's Unpacker.

    python -m benchmarks.spark.decode

creates 1,000,000 messages with bodies of 200 bytes, in chunks as Redis returns them, and
decodes them into Arrow batches of all default columns, and with the Unpacker into lists;
the two take turns, without garbage collection, and both discard their results. It prints
Markdown. It uses neither Redis nor Spark. It needs the package msgpack.
"""

from __future__ import annotations

import argparse
import gc
import os
import struct
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgpack

from benchmarks.support.rounds import figures, in_turns, print_progress
from zaqar_redis.benchmarks import report
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import NewMessage
from zaqar_redis.spark import columns
from zaqar_redis.spark.reading import decode

_TARGET = 0.5
_BODY = 200
_HEAD = struct.Struct(">BBQBQBIBI")
_CREATED, _TTL = 1_700_000_000_000, 3600
_ORIGIN = decode.MessageSource("project", "queue", "default", "9f2c51d07a3be486")
_COLUMNS = tuple(columns.default_schema().names)

Chunks = list[list[bytes]]


def _message(number: int, client: bytes) -> bytes:
    created = _CREATED + number
    expires = created + _TTL * 1000
    head = _HEAD.pack(0x99, 0xCF, created, 0xCF, expires, 0xCE, _TTL, 0xCE, 0)
    return head + envelope.tail(NewMessage(os.urandom(_BODY // 2).hex().encode()), client)


def _chunks(messages: int, size: int) -> Chunks:
    clients = [uuid.uuid4().bytes for _ in range(100)]
    stored = [_message(number, clients[number % len(clients)]) for number in range(messages)]
    return [stored[at : at + size] for at in range(0, messages, size)]


def _batches(chunks: Chunks) -> int:
    rank = total = 0
    for chunk in chunks:
        found = decode.rows(_ORIGIN, range(rank, rank + len(chunk)), chunk)
        found = found.where(found.alive(_CREATED))
        total += decode.batch(_ORIGIN, _COLUMNS, found, _CREATED).num_rows
        rank += len(chunk)
    return total


def _unpacked(chunks: Chunks) -> int:
    total = 0
    for chunk in chunks:
        data = b"".join(chunk)
        # raw: bodies are bytes; to decode strings would only cost the Unpacker time.
        unpacker = msgpack.Unpacker(raw=True, max_buffer_size=len(data))
        unpacker.feed(data)
        total += len(list(unpacker))
    return total


def _nanoseconds(run: Callable[[Chunks], int], chunks: Chunks) -> float:
    """Returns the time per message."""
    start = time.perf_counter_ns()
    total = run(chunks)
    return (time.perf_counter_ns() - start) / total


@contextmanager
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000, help="(1000000)")
    parser.add_argument("--chunk", type=int, default=2000, help="messages in a batch (2000)")
    parser.add_argument("--rounds", type=int, default=7, help="(7)")
    args = parser.parse_args()
    chunks = _chunks(args.messages, args.chunk)
    contenders = (("Arrow batches", _batches), ("Unpacker", _unpacked))
    times: dict[str, list[float]] = {label: [] for label, _ in contenders}
    with _no_collector():
        for _, run in contenders:
            run(chunks[:10])  # warm up what is slow only once
        for number, order in in_turns(contenders, args.rounds):
            for label, run in order:
                times[label].append(_nanoseconds(run, chunks))
                print_progress(
                    f"round {number} of {args.rounds}, {label}: {times[label][-1]:.0f} ns each"
                )
    print(_table(times))
    return 0


def _table(times: dict[str, list[float]]) -> str:
    ours, theirs = times["Arrow batches"], times["Unpacker"]
    ratios = [their_time / our_time for our_time, their_time in zip(ours, theirs, strict=True)]
    rows = [[f"{label}, ns per message", *figures(found, 0)] for label, found in times.items()]
    met = "met" if report.spread(ratios).median >= _TARGET else "missed"
    rows.append([f"speed : Unpacker's (target ≥ {_TARGET:g}: {met})", *figures(ratios, 2)])
    return report.table(["decoding", "median", "min", "max"], rows)


if __name__ == "__main__":
    sys.exit(main())
