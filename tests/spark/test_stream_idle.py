# SPDX-License-Identifier: Apache-2.0
"""An idle stream polls Redis a few times a second, yet notices new messages at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.support import fixtures, servers
from tests.support.spark_reads import SimulatedQuery, SparkTestStore, values
from tests.support.tiers import in_gate
from zaqar_redis.spark.reading import stream_planner

#: Seconds to observe an idle stream: longer than its own poll interval.
_LOOKING = 6.5
#: Commands per second that an idle stream may send.
_CALLS = 5.0
#: Options of a stream, by how it takes messages.
_WAYS = {
    "claim": {"consume": "claim", "group": "g"},
    "browse": {"startingOffsets": "earliest"},
}


#: A Redis without other clients.
own_server = fixtures.redis()


@pytest.fixture
def own_store(own_server: servers.RedisServer, project: str) -> Iterator[SparkTestStore]:
    store = SparkTestStore(own_server.uri, project)
    yield store
    store.close()


def _calls(store: SparkTestStore) -> int:
    """Returns the number of commands Redis has run, including those of scripts."""
    lines = store.command("INFO", "commandstats").decode().splitlines()
    stats = [line for line in lines if line.startswith("cmdstat_")]
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in stats)


@pytest.mark.parametrize("consume", in_gate(["browse", "claim"]))
def test_idle_stream_sends_few_commands(own_store: SparkTestStore, consume: str) -> None:
    own_store.post(1)
    query = SimulatedQuery(own_store.source(subscribe="q", **_WAYS[consume]))
    assert values(query.drain()) == [1]
    before, begin = _calls(own_store), time.monotonic()
    while time.monotonic() < begin + _LOOKING:
        assert query.trigger() is None
    assert query.trigger() is None  # polls if the machine stood still when the loop was to do so
    calls, seconds = _calls(own_store) - before - 1, time.monotonic() - begin
    # At least a poll of its own, and the lease.
    assert 1 <= calls <= _CALLS * seconds
    query.stop()


@pytest.mark.parametrize("consume", ["browse", "claim"])
def test_post_wakes_an_idle_stream(
    own_store: SparkTestStore, consume: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_store.post(1)
    query = SimulatedQuery(own_store.source(subscribe="q", **_WAYS[consume]))
    assert values(query.trigger() or []) == [1]
    query.plan()  # subscribes to notifications
    # Now only a notification ends the wait, or the test's timeout.
    monkeypatch.setattr(stream_planner, "_MAX_POLL_INTERVAL_SECONDS", 3000.0)
    monkeypatch.setattr(stream_planner.IdlePoll, "deadline", lambda _: time.monotonic() + 3000)
    poster = threading.Timer(0.3, own_store.post, args=["news"])
    poster.start()
    assert values(query.trigger() or []) == ["news"]
    poster.join()
    query.stop()


def test_posts_below_min_offsets_do_not_prolong_max_wait(own_store: SparkTestStore) -> None:
    own_store.post(*range(50))
    query = SimulatedQuery(
        own_store.source(subscribe="q", maxWait="300ms", minOffsetsPerTrigger=10_000)
    )
    assert query.trigger() == []
    ended = threading.Event()

    def chatter() -> None:
        while not ended.wait(0.02):
            own_store.post("a word")

    thread = threading.Thread(target=chatter)
    thread.start()
    try:
        for _ in range(3):
            assert query.trigger() is None  # else it waits as long as messages come
    finally:
        ended.set()
        thread.join()
    query.stop()


def test_idle_stream_returns_within_the_trigger_interval(
    own_store: SparkTestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_store.post(1)
    end, asked = stream_planner.IdlePoll.deadline, []

    def looked_at(self: stream_planner.IdlePoll) -> float:
        before, found = time.monotonic(), end(self)
        asked.append(before + 0.3 <= found <= time.monotonic() + 0.3)
        return found

    monkeypatch.setattr(stream_planner.IdlePoll, "deadline", looked_at)
    query = SimulatedQuery(own_store.source(subscribe="q", maxWait="300ms"))
    query.trigger()
    query.trigger()
    query.stop()
    assert set(asked) == {True}
