# SPDX-License-Identifier: Apache-2.0
"""The job ``redrive``: selected dead letters return to their queues, each once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import commands
from tests.support import servers
from tests.support.spark_reads import BatchRead, SparkTestStore
from zaqar_redis import clock, errors
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import Lease, NewMessage
from zaqar_redis.spark.jobs import redrive
from zaqar_redis.spark.jobs.redrive import RedriveSettings
from zaqar_redis.spark.jobs.running import JobRefused
from zaqar_redis.spark.reading.group_lease import GroupLease
from zaqar_redis.spark.stores import StoreConfig
from zaqar_redis.storage.redis.bulk.dead_letters import RedisDeadLetters
from zaqar_redis.storage.redis.bulk.ledger import RedisLedger

DEAD = "dead"
_SEEN = "dead letters seen"
RETRY = "get_json_object(cast(body as string), '$.kind') = 'retry'"


def source_options(store: SparkTestStore) -> dict[str, str]:
    return {"uri": store.uri, "project": store.project}


def run_redrive(spark: SparkSession, store: SparkTestStore, **how: Any) -> dict[str, int]:
    """Redrives; returns the non-zero counts by outcome."""
    report = redrive.redrive(spark, DEAD, source_options(store), RedriveSettings(**how))
    return commands.parts(report, _SEEN)


def post_dead_letters(
    store: SparkTestStore, *bodies: Any, origin: str = "q", **fields: Any
) -> None:
    """Posts dead letters, as if they came from *origin*."""
    messages = [NewMessage(json.dumps(body).encode(), origin=origin, **fields) for body in bodies]
    chunk = [(900, 0, envelope.tail(message, b"client-of-16-byt")) for message in messages]
    for first in range(0, len(chunk), 1000):
        RedisLedger(store.client, clock.store).append(
            store.project, DEAD, chunk[first : first + 1000], size=0, default_ttl=60, encrypted=True
        ).run()


def dead_letter_bodies(store: SparkTestStore) -> list[Any]:
    """Returns the bodies in the dead-letter queue, by rank."""
    return [json.loads(row["body"]) for row in BatchRead(store.source(subscribe=DEAD)).rows()]


def test_dead_letters_are_redriven_to_their_queue(
    spark: SparkSession, store: SparkTestStore
) -> None:
    store.create(_max_claim_count=1, _dead_letter_queue=DEAD)
    store.post("a", "b")
    before = BatchRead(store.source(subscribe="q")).rows()
    taken = store.claim(10)
    assert taken.claim_id
    store.claims.delete(store.project, "q", taken.claim_id).run()
    assert store.claim(10).claim_id is None
    assert (store.bodies(), dead_letter_bodies(store)) == ([], ["a", "b"])

    assert run_redrive(spark, store) == {"moved": 2}

    assert (store.bodies(), dead_letter_bodies(store)) == (["a", "b"], [])
    after = BatchRead(store.source(subscribe="q")).rows()
    for name in ("body", "ttl", "client_id", "claim_count", "dead_letter_from"):
        assert [row[name] for row in after] == [row[name] for row in before]
    assert len(store.claim(10).messages) == 2


def test_redriven_dead_letters_are_unchanged(spark: SparkSession, store: SparkTestStore) -> None:
    store.create()
    post_dead_letters(store, "sealed", encrypted=True)
    post_dead_letters(store, "checked", checksum=bytes(range(16)))
    attributes = {"kind": "order", "n": 2**64 - 1, "price": 0.5, "photo": b"\xff"}
    post_dead_letters(store, "attributed", attributes=attributes)
    columns = "rank,body,encrypted,checksum,attributes,client_id,ttl"
    before = BatchRead(store.source(subscribe=DEAD, columns=columns)).rows()
    assert run_redrive(spark, store, where="attributes.n.number IS NULL") == {
        "moved": 2,
        "filtered": 1,
    }
    assert run_redrive(spark, store) == {"moved": 1}
    assert BatchRead(store.source(subscribe="q", columns=columns)).rows() == before


def test_dead_letters_that_do_not_match_the_condition_stay(
    spark: SparkSession, store: SparkTestStore
) -> None:
    store.create()
    post_dead_letters(store, *({"kind": kind} for kind in ("retry", "drop", "retry")), "no object")
    post_dead_letters(store, {"kind": "retry"}, origin="other")
    ids = store.ids(DEAD)

    assert run_redrive(spark, store, where=RETRY, origins=("q",)) == {"moved": 2, "filtered": 3}

    assert store.bodies() == [{"kind": "retry"}] * 2
    assert store.ids(DEAD) == {rank: ids[rank] for rank in (2, 4, 5)}
    left = BatchRead(store.source(subscribe=DEAD)).rows()
    assert [(row["claim_id"], row["claim_count"]) for row in left] == [(None, 1)] * 3
    assert store.leases(DEAD) == {}


def test_dead_letters_without_existing_origin_stay(
    spark: SparkSession, store: SparkTestStore
) -> None:
    store.create()
    post_dead_letters(store, "a")
    post_dead_letters(store, "b", "c", origin="gone")
    store.post("d", queue=DEAD)
    report = redrive.redrive(spark, DEAD, source_options(store))
    assert commands.parts(report, _SEEN) == {"moved": 1, "no origin": 3}
    assert report.details["queues"] == {
        "q": {"moved": 1},
        "gone": {"no origin": 2},
        "(none)": {"no origin": 1},
    }
    assert dead_letter_bodies(store) == ["b", "c", "d"]
    assert store.queues.get(store.project, "gone").run() is None


def test_target_queue_receives_all_dead_letters(spark: SparkSession, store: SparkTestStore) -> None:
    store.create("target")
    post_dead_letters(store, "a")
    post_dead_letters(store, "b", origin="gone")
    store.post("c", queue=DEAD)
    assert run_redrive(spark, store, target="target") == {"moved": 3}
    assert sorted(store.bodies("target")) == ["a", "b", "c"]


def test_limit_redrives_the_oldest_matching_dead_letters(
    spark: SparkSession, store: SparkTestStore
) -> None:
    store.create()
    post_dead_letters(store, *({"kind": ("drop", "retry")[n % 2], "n": n} for n in range(10)))
    found = run_redrive(spark, store, where=RETRY, limit=3)
    assert found == {"moved": 3, "filtered": 5, "beyond the limit": 2}
    assert [body["n"] for body in store.bodies()] == [1, 3, 5]
    assert len(dead_letter_bodies(store)) == 7


def test_redrive_dry_run_changes_nothing(spark: SparkSession, store: SparkTestStore) -> None:
    store.create()
    post_dead_letters(store, {"kind": "retry"}, {"kind": "drop"}, {"kind": "retry"})
    post_dead_letters(store, {"kind": "retry"}, origin="gone")
    before = BatchRead(store.source(subscribe=DEAD)).rows()
    expected = {"would be moved": 2, "filtered": 1, "no origin": 1}
    assert run_redrive(spark, store, where=RETRY, dry_run=True) == expected
    limited = run_redrive(spark, store, where=RETRY, dry_run=True, limit=1)
    assert limited == expected | {"would be moved": 1, "beyond the limit": 1}
    assert BatchRead(store.source(subscribe=DEAD)).rows() == before
    assert store.bodies() == []


def test_dead_letter_already_redriven_is_only_deleted(
    spark: SparkSession, store: SparkTestStore
) -> None:
    store.create()
    post_dead_letters(store, "a", "b")
    first = store.ids(DEAD)[1]
    tail = envelope.tail(NewMessage(b'"a"'), b"client-of-16-byt")
    dead_letters = RedisDeadLetters(store.client, clock.store)
    for expected in (1, 0):  # the second post is a retry; the dead letter remains
        assert dead_letters.post(store.project, "q", [(first, 900, tail)]).run() == expected
    assert run_redrive(spark, store) == {"moved": 1, "already there": 1}
    assert store.bodies() == ["a", "b"]
    assert dead_letter_bodies(store) == []
    assert run_redrive(spark, store) == {}
    assert store.last_rank() == 2


def test_claimed_dead_letters_are_left(spark: SparkSession, store: SparkTestStore) -> None:
    store.create()
    post_dead_letters(store, "a", "b")
    store.claim(1, DEAD)
    assert run_redrive(spark, store) == {"moved": 1}
    assert dead_letter_bodies(store) == ["a"]


@pytest.mark.nightly
def test_many_dead_letters_are_redriven_in_several_rounds(
    spark: SparkSession, store: SparkTestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive, "_ROUND_MESSAGES", 3000)
    monkeypatch.setattr(redrive, "_CLAIM_MESSAGES", 500)
    store.create()
    post_dead_letters(store, *range(7000))
    found = run_redrive(spark, store, where="cast(cast(body as string) as int) % 7 > 0")
    assert found == {"moved": 6000, "filtered": 1000}
    assert sorted(store.bodies()) == [n for n in range(7000) if n % 7]
    assert dead_letter_bodies(store) == list(range(0, 7000, 7))
    assert store.leases(DEAD) == {}


def test_concurrent_redrive_is_refused(
    spark: SparkSession, store: SparkTestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.reading.group_lease._ACQUIRE_TIMEOUT_SECONDS", 0.5)
    store.create()
    post_dead_letters(store, "a")
    store_config = StoreConfig(store.uri, store.uri, store.project, 10.0)
    other = GroupLease(store_config, f"redrive:{DEAD}", Lease(60, 60))
    other.begin()
    try:
        with pytest.raises(JobRefused, match="another redrive"):
            run_redrive(spark, store)
    finally:
        other.end()
    assert run_redrive(spark, store) == {"moved": 1}


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
def test_invalid_redrive_arguments_are_named(
    spark: SparkSession, store: SparkTestStore, how: dict[str, Any], why: str
) -> None:
    post_dead_letters(store, "a")
    with pytest.raises(errors.BadConfiguration, match=why):
        run_redrive(spark, store, **how)
    assert store.leases(DEAD) == {}


def test_missing_dead_letter_queue_is_reported(spark: SparkSession, store: SparkTestStore) -> None:
    with pytest.raises(errors.BadConfiguration, match=f'--queue: there is no queue "{DEAD}"'):
        run_redrive(spark, store)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_next_redrive_completes_a_killed_one(
    spark: SparkSession, store: SparkTestStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.create()
    post_dead_letters(store, *range(2000))
    with commands.running(store, "redrive", "--queue", DEAD, "--rate", 150) as process:
        servers.wait_for(
            lambda: store.last_rank() >= 400, "some dead letters", commands.TIMEOUT_SECONDS
        )
        commands.kill(process)
    redriven = store.last_rank()
    assert redriven < 2000
    _expire_claims(store)
    store.expire_roles()

    document = commands.report(capsys, store, redrive, "--queue", DEAD)
    parts = document["counts"]["dead letters seen"]
    assert parts["moved"] == 2000 - redriven
    assert sum(parts.values()) == 2000 - redriven + parts["already there"]
    assert sorted(store.bodies()) == list(range(2000))
    assert store.last_rank() == 2000
    assert dead_letter_bodies(store) == []


def _expire_claims(store: SparkTestStore) -> None:
    """Lets all claims expire."""
    for slot in ("leases", "claimed"):
        key = store.key(slot, DEAD)
        for member in store.command("ZRANGE", key, 0, -1):
            store.command("ZADD", key, "XX", 1, member)  # a dying task may delete it
    store.command("HSET", store.key("queue", DEAD), "due", 1)
