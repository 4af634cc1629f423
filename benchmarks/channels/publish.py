# SPDX-License-Identifier: Apache-2.0
"""How fast one process publishes with history, compared with the bare script.

*raw EVALSHA* has its commands packed before the clock starts, keeps as many in flight as
the engine has callers, sends them in halves so that Redis is never idle, and only counts
the replies.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import time
from collections.abc import Callable

import hiredis

from benchmarks.channels.fanout import start_engine
from benchmarks.support.figures import Figures
from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import in_turns, print_progress
from tests.support import servers
from tests.support.servers import RedisServer
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script
from zaqar_redis.realtime.engine import HistoryOptions, new_epoch
from zaqar_redis.realtime.engines.redis import RedisEngine

#: Concurrent publishers, each with one publication at a time.
_CALLERS = 64
_CHANNELS = [f"default/channel-{number}" for number in range(100)]
_HISTORY_OPTIONS = HistoryOptions(size=100, ttl=300, meta_ttl=3600)
_PAYLOAD = b"x" * 150
#: Seconds of the warm-up round.
_WARM_UP = 1
_CPU = "µs of CPU"
_ENGINE, _RAW = "engine", "raw EVALSHA"


def measure(figures: Figures, runner: asyncio.Runner, rounds: int, seconds: float) -> None:
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(servers.redis_server())
        engine = start_engine(stack, runner, store.uri)
        contenders: dict[str, Callable[[float], float]] = {
            _ENGINE: lambda seconds: runner.run(_by_engine(engine, seconds)),
            _RAW: lambda seconds: _raw(store, seconds),
        }
        for run in contenders.values():
            run(min(_WARM_UP, seconds))
        unit = "publications/s"
        target = figures.figure("publish", _ENGINE, unit, ("≥", 20_000))
        ratio = figures.figure("publish", f"{_ENGINE} : {_RAW}", "ratio", ("≥", 0.7))
        rates = {label: figures.figure("publish", label, unit) for label in contenders}
        of_redis = {
            label: figures.figure("publish", f"{label}, Redis", _CPU) for label in contenders
        }
        own = {
            label: figures.figure("publish", f"{label}, publisher", _CPU) for label in contenders
        }
        for number, order in in_turns((_ENGINE, _RAW), rounds):
            for label in order:
                before = cpu_seconds(store.pid), time.process_time()
                rate = contenders[label](seconds)
                rates[label].append(rate)
                of_redis[label].append((cpu_seconds(store.pid) - before[0]) / rate / seconds * 1e6)
                own[label].append((time.process_time() - before[1]) / rate / seconds * 1e6)
                print_progress(
                    f"publish: round {number} of {rounds}, {label}: {rates[label][-1]:.0f}/s"
                )
            target.append(rates[_ENGINE][-1])
            ratio.append(rates[_ENGINE][-1] / rates[_RAW][-1])


async def _by_engine(engine: RedisEngine, seconds: float) -> float:
    channels = itertools.cycle(_CHANNELS)
    end = time.perf_counter() + seconds
    done = 0

    async def publish() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await engine.history.publish(next(channels), _PAYLOAD, _HISTORY_OPTIONS)
            done += 1

    start = time.perf_counter()
    await asyncio.gather(*(publish() for _ in range(_CALLERS)))
    return done / (time.perf_counter() - start)


def _raw(store: RedisServer, seconds: float) -> float:
    halves = itertools.cycle(_packed())
    reader = hiredis.Reader()
    sent = done = 0
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(store.socket))
        start = time.perf_counter()
        while time.perf_counter() < start + seconds:
            while sent - done <= _CALLERS // 2:
                connection.sendall(next(halves))
                sent += _CALLERS // 2
            done += _answers(connection, reader)
        while done < sent:
            done += _answers(connection, reader)
        return done / (time.perf_counter() - start)


def _packed() -> list[bytes]:
    """Returns packed commands for all channels; each item is half of those in flight."""
    script = Script("channel_publish")
    commands = [
        hiredis.pack_command(
            script(
                keys.DedupKeys(keys.of_channel(channel), ""),
                payload=_PAYLOAD,
                size=_HISTORY_OPTIONS.size,
                ttl=_HISTORY_OPTIONS.ttl,
                meta_ttl=_HISTORY_OPTIONS.meta_ttl,
                epoch=new_epoch(),
                remember=0,
                version=0,
                version_epoch="",
                send=1,
            ).command()  # type: ignore[arg-type]  # ints too
        )
        for channel in _CHANNELS
    ]
    half = _CALLERS // 2
    repeated = list(itertools.islice(itertools.cycle(commands), len(commands) * half))
    return [b"".join(repeated[at : at + half]) for at in range(0, len(repeated), half)]


def _answers(connection: socket.socket, reader: hiredis.Reader) -> int:
    """Returns the number of replies.  Raises BenchmarkFailed for an error."""
    reader.feed(connection.recv(65536))
    answers = 0
    while (answer := reader.gets()) is not False:
        if not isinstance(answer, list) or answer[2] != 1:
            raise BenchmarkFailed(f"Redis did not publish: {answer}")
        answers += 1
    return answers
