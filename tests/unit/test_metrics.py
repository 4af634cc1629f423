# SPDX-License-Identifier: Apache-2.0
"""Values of metrics, their way from a worker to its parent, and how they are added up."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable, Iterator

import pytest

from zaqar_redis.metrics import definitions
from zaqar_redis.metrics.merged import MergedMetrics
from zaqar_redis.metrics.shared import SnapshotTooLarge, WorkerLock, WorkerSlot
from zaqar_redis.metrics.values import Counter, DurationHistogram, Gauge, Histogram

_FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def _only_this_test() -> Iterator[None]:
    definitions.reset()
    yield
    definitions.reset()


def _in_worker(slot: WorkerSlot, work: Callable[[], None]) -> None:
    """Runs *work* in a worker that reports and ends."""

    def run() -> None:
        definitions.reset()
        slot.begin()
        work()
        slot.write(definitions.snapshot())
        os._exit(0)

    worker = _FORK.Process(target=run)
    worker.start()
    worker.join()


#: Of sums: a second in 60 ns.
_PART = 2**-24


def test_counter_with_known_labels_begins_with_zeros() -> None:
    counter = Counter("c", "", ("level",), known=("info", "error"))
    counter.add("error")
    counter.add("error", by=2)
    assert dict(counter.rows()) == {("info",): [0], ("error",): [3]}


def test_counter_by_status_shares_its_rows() -> None:
    counter = Counter("c", "", ("method", "status"))
    counter.by_status("GET")[200] += 1
    counter.by_status("GET")[200] += 1
    counter.by_status("GET")[503] += 1
    assert dict(counter.rows()) == {("GET", "200"): [2], ("GET", "503"): [1]}


def test_gauge_adds_up_what_it_follows_until_that_ends() -> None:
    gauge = Gauge("g", "", ("store",))
    end = gauge.follow(lambda: 3, "one")
    gauge.follow(lambda: 4, "one")
    gauge.set(1, "other")
    assert dict(gauge.rows()) == {("one",): [7], ("other",): [1]}
    end()
    end()
    assert dict(gauge.rows()) == {("one",): [4], ("other",): [1]}


def test_gauge_of_the_least_has_the_worst_value() -> None:
    gauge = Gauge("g", "", ("store",), least=True)
    gauge.follow(lambda: True, "one")
    gauge.follow(lambda: False, "one")
    assert dict(gauge.rows()) == {("one",): [0]}


def test_histogram_counts_a_bound_in_the_bucket_below() -> None:
    histogram = Histogram("h", "", buckets=(1, 2))
    for value in (0.5, 1, 1.5, 9):
        histogram.observe(value)
    assert dict(histogram.rows()) == {(): [12, 2, 1, 1]}


@pytest.mark.parametrize(
    ("nanoseconds", "bucket"),
    [(1, 0), (2**17 - 1, 0), (2**17 + 1, 1), (2**34 - 1, 17), (2**34 + 1, 18), (2**60, 18)],
)
def test_duration_is_in_the_first_bucket_that_is_not_less(nanoseconds: int, bucket: int) -> None:
    histogram = DurationHistogram("h", "", ("method", "status"))
    histogram.by_status("GET")[200].append(nanoseconds)
    ((labels, row),) = histogram.rows()
    assert labels == ("GET", "200")
    assert row[0] == pytest.approx(nanoseconds / 1e9, abs=_PART / 2)
    assert [number for number, count in enumerate(row[1:]) if count] == [bucket]
    assert bucket == len(histogram.buckets) or histogram.buckets[bucket] >= nanoseconds / 1e9
    assert [*histogram.rows()] == [(labels, row)]  # it is counted once


def test_snapshot_survives_one_that_does_not_fit() -> None:
    slot = WorkerSlot(1)
    assert slot.read() == ({}, 0.0)
    definitions.POSTED.total = 7
    slot.write(definitions.snapshot())
    definitions.QUEUE_OLDEST.replace({(str(number), "x" * 64): 1 for number in range(80_000)})
    with pytest.raises(SnapshotTooLarge):
        slot.write(definitions.snapshot())
    found, age = slot.read()
    assert found[definitions.POSTED.name] == [((), [7.0])]
    assert 0 <= age < 60
    slot.close()


def test_snapshot_has_room_for_all_queues_with_the_longest_names() -> None:
    names = [("p" * 256, f"{number:064}") for number in range(1000)]
    values = dict.fromkeys(names, 2**53)
    states = [(*name, state) for name in names for state in ("free", "claimed", "delayed")]
    definitions.QUEUE_MESSAGES.replace(dict.fromkeys(states, 2**53))
    for metric in (definitions.QUEUE_OLDEST, *definitions.QUEUE_COUNTERS.values()):
        metric.replace(values)
    slot = WorkerSlot(1)
    slot.write(definitions.snapshot())
    slot.close()


def test_counters_go_on_when_workers_are_gone_and_gauges_do_not() -> None:
    merged = MergedMetrics()

    def work() -> None:
        definitions.POSTED.total = 5
        definitions.LOG_EVENTS.add("error")
        definitions.LOOP_LAG.observe(0.003)
        definitions.WORKER_CPU.total = 1.5
        definitions.STORE_UP.set(1, "store")
        definitions.QUEUE_COUNTERS["posted"].set(9, "p", "q")

    for round_ in (1, 2):
        slot = merged.open_slot()
        assert slot.number == 1
        _in_worker(slot, work)
        found = merged.snapshot()
        assert found["zaqar_redis_messages_posted"] == [((), [5.0 * round_])]
        assert (("error",), [1.0 * round_]) in found["zaqar_redis_log_events"]
        assert found["zaqar_redis_event_loop_lag_seconds"][0][1][:3] == pytest.approx(
            [0.003 * round_, 0, round_], abs=_PART
        )
        assert found["zaqar_redis_worker_cpu_seconds"] == [(("1",), [1.5 * round_])]
        assert "zaqar_redis_store_up" not in found
        assert found["zaqar_redis_queue_posted"] == []
        assert found["zaqar_redis_worker_exits"] == [((), [round_])]
        assert found["zaqar_redis_workers"] == [((), [0])]


def test_worker_that_has_not_begun_keeps_its_slot() -> None:
    merged = MergedMetrics()
    first, second = merged.open_slot(), merged.open_slot()
    assert (first.number, second.number) == (1, 2)
    assert merged.snapshot()["zaqar_redis_workers"] == [((), [2])]


def test_lock_is_free_again_when_its_worker_is_gone() -> None:
    lock = WorkerLock()
    ours, theirs = _FORK.Pipe()

    def run() -> None:
        theirs.send(lock.acquire())
        theirs.recv()
        os._exit(0)

    worker = _FORK.Process(target=run)
    worker.start()
    assert ours.recv() is True
    assert lock.acquire() is False
    ours.send("end")
    worker.join()
    assert lock.acquire() is True
    lock.close()
    ours.close()
    theirs.close()


def test_every_metric_has_a_name_by_prometheus_rules() -> None:
    for metric in definitions.METRICS.values():
        assert metric.help.endswith("."), metric.name
        assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket")), metric.name
        assert not {"ms", "milliseconds", "kb", "percent"} & set(metric.name.split("_"))
        if isinstance(metric, DurationHistogram):
            assert metric.name.endswith("_seconds")


def test_sum_of_durations_is_the_same_whichever_worker_ends_first() -> None:
    generator = random.Random(1)
    rows = []
    for _ in range(4):
        worker = DurationHistogram("t", "Help.")
        for _ in range(1000):
            worker.add(generator.randrange(10**9))
        rows.append(dict(worker.rows())[()])
    in_turn = rows[0]
    for row in rows[1:]:
        in_turn = worker.combine([in_turn, row])
    of_pairs = worker.combine([worker.combine(rows[2:]), worker.combine(rows[:2])])
    assert in_turn == of_pairs == worker.combine(reversed(rows))
