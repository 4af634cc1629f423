# SPDX-License-Identifier: Apache-2.0
"""Dead letters go back: each once, and only those that are wanted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import servers
from tests.spark.jobs import commands
from tests.spark.support import Batch, Store
from zaqar_redis import clock, errors
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import Draft
from zaqar_redis.spark.holding import Holding
from zaqar_redis.spark.jobs import redrive
from zaqar_redis.spark.jobs.redrive import Settings
from zaqar_redis.spark.jobs.report import Report
from zaqar_redis.spark.jobs.running import Refused
from zaqar_redis.spark.stores import Where
from zaqar_redis.storage.drivers.redis.ledger import Ledger
from zaqar_redis.storage.drivers.redis.letters import Letters

DEAD = "dead"
RETRY = "get_json_object(cast(body as string), '$.kind') = 'retry'"


def where(store: Store) -> dict[str, str]:
    return {"uri": store.uri, "project": store.project}


def drive(spark: SparkSession, store: Store, **how: Any) -> dict[str, int]:
    """What became of how many, as far as there were any."""
    report = redrive.redrive(spark, DEAD, where(store), Settings(**how))
    return counts(report)


def counts(report: Report) -> dict[str, int]:
    parts = report.counts["dead letters seen"]
    assert isinstance(parts, dict)
    return {fate: number for fate, number in parts.items() if number}


def bury(store: Store, *bodies: Any, origin: str = "q", **fields: Any) -> None:
    """Letters in the dead-letter queue, as if they came from *origin*."""
    drafts = [Draft(json.dumps(body).encode(), origin=origin, **fields) for body in bodies]
    letters = [(900, 0, envelope.tail(draft, b"client-of-16-byt")) for draft in drafts]
    for first in range(0, len(letters), 1000):
        Ledger(store.client, clock.store).append(
            store.project, DEAD, letters[first : first + 1000], size=0, default_ttl=60, sealed=True
        ).run()


def dead(store: Store) -> list[Any]:
    """What is in the dead-letter queue, by rank."""
    return [json.loads(row["body"]) for row in Batch(store.source(subscribe=DEAD)).rows()]


def test_what_was_claimed_too_often_comes_back(spark: SparkSession, store: Store) -> None:
    store.create(_max_claim_count=1, _dead_letter_queue=DEAD)
    store.post("a", "b")
    before = Batch(store.source(subscribe="q")).rows()
    taken = store.claim(10)
    assert taken.claim_id
    store.claims.delete(store.project, "q", taken.claim_id).run()
    assert store.claim(10).claim_id is None
    assert (store.bodies(), dead(store)) == ([], ["a", "b"])

    assert drive(spark, store) == {"moved": 2}

    assert (store.bodies(), dead(store)) == (["a", "b"], [])
    after = Batch(store.source(subscribe="q")).rows()
    for name in ("body", "ttl", "client_id", "claim_count", "dead_letter_from"):
        assert [row[name] for row in after] == [row[name] for row in before]
    assert len(store.claim(10).messages) == 2


def test_letters_go_as_they_are(spark: SparkSession, store: Store) -> None:
    store.create()
    bury(store, "sealed", sealed=True)
    bury(store, "checked", checksum=bytes(range(16)))
    columns = "rank,body,encrypted,checksum,client_id,ttl"
    before = Batch(store.source(subscribe=DEAD, columns=columns)).rows()
    assert drive(spark, store) == {"moved": 2}
    assert Batch(store.source(subscribe="q", columns=columns)).rows() == before


def test_what_the_condition_does_not_fit_stays(spark: SparkSession, store: Store) -> None:
    store.create()
    bury(store, *({"kind": kind} for kind in ("retry", "drop", "retry")), "no object")
    bury(store, {"kind": "retry"}, origin="other")
    ids = store.ids(DEAD)

    assert drive(spark, store, where=RETRY, origins=("q",)) == {"moved": 2, "filtered": 3}

    assert store.bodies() == [{"kind": "retry"}] * 2
    assert store.ids(DEAD) == {rank: ids[rank] for rank in (2, 4, 5)}
    left = Batch(store.source(subscribe=DEAD)).rows()
    assert [(row["claim_id"], row["claim_count"]) for row in left] == [(None, 1)] * 3
    assert store.leases(DEAD) == {}


def test_letters_of_no_queue_stay(spark: SparkSession, store: Store) -> None:
    store.create()
    bury(store, "a")
    bury(store, "b", "c", origin="gone")
    store.post("d", queue=DEAD)
    report = redrive.redrive(spark, DEAD, where(store))
    assert counts(report) == {"moved": 1, "no origin": 3}
    assert report.details["queues"] == {
        "q": {"moved": 1},
        "gone": {"no origin": 2},
        "(none)": {"no origin": 1},
    }
    assert dead(store) == ["b", "c", "d"]
    assert store.queues.get(store.project, "gone").run() is None


def test_all_may_go_to_one_queue(spark: SparkSession, store: Store) -> None:
    store.create("target")
    bury(store, "a")
    bury(store, "b", origin="gone")
    store.post("c", queue=DEAD)
    assert drive(spark, store, target="target") == {"moved": 3}
    assert sorted(store.bodies("target")) == ["a", "b", "c"]


def test_a_limit_takes_the_oldest_that_are_wanted(spark: SparkSession, store: Store) -> None:
    store.create()
    bury(store, *({"kind": ("drop", "retry")[n % 2], "n": n} for n in range(10)))
    found = drive(spark, store, where=RETRY, limit=3)
    assert found == {"moved": 3, "filtered": 5, "beyond the limit": 2}
    assert [body["n"] for body in store.bodies()] == [1, 3, 5]
    assert len(dead(store)) == 7


def test_a_dry_run_changes_nothing(spark: SparkSession, store: Store) -> None:
    store.create()
    bury(store, {"kind": "retry"}, {"kind": "drop"}, {"kind": "retry"})
    bury(store, {"kind": "retry"}, origin="gone")
    before = Batch(store.source(subscribe=DEAD)).rows()
    expected = {"would be moved": 2, "filtered": 1, "no origin": 1}
    assert drive(spark, store, where=RETRY, dry_run=True) == expected
    limited = drive(spark, store, where=RETRY, dry_run=True, limit=1)
    assert limited == expected | {"would be moved": 1, "beyond the limit": 1}
    assert Batch(store.source(subscribe=DEAD)).rows() == before
    assert store.bodies() == []


def test_a_letter_that_came_back_is_only_deleted(spark: SparkSession, store: Store) -> None:
    store.create()
    bury(store, "a", "b")
    first = store.ids(DEAD)[1]
    tail = envelope.tail(Draft(b'"a"'), b"client-of-16-byt")
    letters = Letters(store.client, clock.store)
    for expected in (1, 0):  # then the process died
        assert letters.post(store.project, "q", [(first, 900, tail)]).run() == expected
    assert drive(spark, store) == {"moved": 1, "already there": 1}
    assert store.bodies() == ["a", "b"]
    assert dead(store) == []
    assert drive(spark, store) == {}
    assert store.last_rank() == 2


def test_what_others_hold_is_left_to_them(spark: SparkSession, store: Store) -> None:
    store.create()
    bury(store, "a", "b")
    store.claim(1, DEAD)
    assert drive(spark, store) == {"moved": 1}
    assert dead(store) == ["a"]


def test_many_letters_in_several_rounds(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive, "_ROUND", 3000)
    monkeypatch.setattr(redrive, "_CLAIM", 500)
    store.create()
    bury(store, *range(7000))
    found = drive(spark, store, where="cast(cast(body as string) as int) % 7 > 0")
    assert found == {"moved": 6000, "filtered": 1000}
    assert sorted(store.bodies()) == [n for n in range(7000) if n % 7]
    assert dead(store) == list(range(0, 7000, 7))
    assert store.leases(DEAD) == {}


def test_two_at_once_are_refused(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.holding._WAIT", 0.5)
    store.create()
    bury(store, "a")
    at = Where(store.uri, store.uri, store.project, 10.0)
    other = Holding(at, f"redrive:{DEAD}", 60, 60)
    other.begin()
    try:
        with pytest.raises(Refused, match="another redrive"):
            drive(spark, store)
    finally:
        other.end()
    assert drive(spark, store) == {"moved": 1}


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"where": "nothing = 1"}, "--where"),
        ({"where": "rank +"}, "--where"),
        ({"where": "rank"}, "--where: it must be a condition, not of type bigint"),
        ({"target": "a b"}, "--target-queue"),
        ({"target": DEAD}, "--target-queue: it is the dead-letter queue itself"),
        ({"target": "none"}, '--target-queue: there is no queue "none"'),
        ({"origins": ("a b",)}, "--from-queue"),
        ({"limit": 0}, "--limit"),
        ({"rate": -1}, "--rate"),
    ],
)
def test_bad_arguments_are_named(
    spark: SparkSession, store: Store, how: dict[str, Any], why: str
) -> None:
    bury(store, "a")
    with pytest.raises(errors.BadConfiguration, match=why):
        drive(spark, store, **how)
    assert store.leases(DEAD) == {}


def test_a_queue_that_is_not_there_is_told(spark: SparkSession, store: Store) -> None:
    with pytest.raises(errors.BadConfiguration, match=f'--queue: there is no queue "{DEAD}"'):
        drive(spark, store)


@pytest.mark.timeout(300)
def test_what_a_killed_redrive_left_is_moved_by_the_next(
    spark: SparkSession, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.create()
    bury(store, *range(2000))
    with commands.running(store, "redrive", "--queue", DEAD, "--rate", 600) as process:
        servers.wait_for(lambda: store.last_rank() >= 400, "some letters", commands.PATIENCE)
        commands.kill(process)
    there = store.last_rank()
    assert there < 2000
    _lapse(store)

    told = commands.report(capsys, store, redrive, "--queue", DEAD)
    parts = told["counts"]["dead letters seen"]
    assert parts["moved"] == 2000 - there
    assert sum(parts.values()) == 2000 - there + parts["already there"]
    assert sorted(store.bodies()) == list(range(2000))
    assert store.last_rank() == 2000
    assert dead(store) == []


def _lapse(store: Store) -> None:
    """As if the time of all claims were over."""
    for slot in ("leases", "claimed"):
        key = store.key(slot, DEAD)
        for member in store.command("ZRANGE", key, 0, -1):
            store.command("ZADD", key, 1, member)
