# SPDX-License-Identifier: Apache-2.0
"""An idle stream asks Redis a few times a second, and hears of news at once all the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests import servers
from tests.spark.support import Query, Store, values
from zaqar_redis.spark import waiting

#: Seconds to look at an idle stream: longer than it goes without a look of its own.
_LOOKING = 6.5
#: What an idle stream may cost Redis, a second.
_CALLS = 5.0


@pytest.fixture(scope="module")
def quiet() -> Iterator[servers.RedisServer]:
    """A Redis whose commands are all ours."""
    with servers.redis_server() as server:
        yield server


@pytest.fixture
def own(quiet: servers.RedisServer, project: str) -> Iterator[Store]:
    store = Store(quiet.uri, project)
    yield store
    store.close()


def _calls(store: Store) -> int:
    """Commands that Redis has run so far, those of scripts included."""
    lines = store.command("INFO", "commandstats").decode().splitlines()
    stats = [line for line in lines if line.startswith("cmdstat_")]
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in stats)


@pytest.mark.parametrize("consume", ["browse", "claim"])
def test_an_idle_stream_is_quiet(own: Store, consume: str) -> None:
    own.post(1)
    claiming = {"consume": "claim", "group": "g"}
    browsing = {"startingOffsets": "earliest"}
    query = Query(own.source(subscribe="q", **(claiming if consume == "claim" else browsing)))
    assert values(query.drain()) == [1]
    before, begin = _calls(own), time.monotonic()
    while time.monotonic() < begin + _LOOKING:
        assert query.trigger() is None
    calls, seconds = _calls(own) - before - 1, time.monotonic() - begin
    # A look of its own at least, and its lease.
    assert 1 <= calls <= _CALLS * seconds
    query.stop()


@pytest.mark.parametrize("consume", ["browse", "claim"])
def test_news_wake_an_idle_stream(
    own: Store, consume: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.post(1)
    claiming = {"consume": "claim", "group": "g"}
    browsing = {"startingOffsets": "earliest"}
    options = claiming if consume == "claim" else browsing
    query = Query(own.source(subscribe="q", **options))
    assert values(query.trigger() or []) == [1]
    query.plan()  # it listens from here on
    # Now only news end the waiting, or the test's own time does.
    monkeypatch.setattr(waiting, "_SLOW_POLL", 3000.0)
    monkeypatch.setattr(waiting.Waiting, "end", lambda _: time.monotonic() + 3000)
    poster = threading.Timer(0.3, own.post, args=["news"])
    poster.start()
    assert values(query.trigger() or []) == ["news"]
    poster.join()
    query.stop()


def test_news_of_others_do_not_keep_spark_waiting(own: Store) -> None:
    own.post(*range(50))
    query = Query(own.source(subscribe="q", maxWait="300ms", minOffsetsPerTrigger=10_000))
    assert query.trigger() == []
    ended = threading.Event()

    def chatter() -> None:
        while not ended.wait(0.02):
            own.post("a word")

    thread = threading.Thread(target=chatter)
    thread.start()
    try:
        for _ in range(3):
            assert query.trigger() is None  # else it waits as long as somebody talks
    finally:
        ended.set()
        thread.join()
    query.stop()


def test_spark_is_answered_when_it_asked_to_be(own: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    own.post(1)
    end, asked = waiting.Waiting.end, []

    def looked_at(self: waiting.Waiting) -> float:
        before, found = time.monotonic(), end(self)
        asked.append(before + 0.3 <= found <= time.monotonic() + 0.3)
        return found

    monkeypatch.setattr(waiting.Waiting, "end", looked_at)
    query = Query(own.source(subscribe="q", maxWait="300ms"))
    query.trigger()
    query.trigger()
    query.stop()
    assert set(asked) == {True}
