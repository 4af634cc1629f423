# SPDX-License-Identifier: Apache-2.0
"""Batches of claimed messages: re-read until finished, then deleted."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.spark.conftest import Start
from tests.support import servers
from tests.support.spark_reads import SimulatedQuery, SparkTestStore, batch, values
from zaqar_redis.errors import BadConfiguration
from zaqar_redis.keyspace import control_keys
from zaqar_redis.spark import offsets
from zaqar_redis.spark.reading.claim_stream import ClaimEnded
from zaqar_redis.spark.reading.data_loss import DataLoss
from zaqar_redis.spark.reading.group_lease import GroupTaken

CLAIM = {"consume": "claim", "group": "g", "maxWait": "0s"}


def key(store: SparkTestStore, queue: str = "q") -> str:
    return offsets.key(store.project, queue)


def claimable(store: SparkTestStore, queue: str = "q") -> list[str]:
    """Returns the bodies that others could claim."""
    return values(batch(store.source(subscribe=queue, includeClaimed=False)))


def expire_claim(store: SparkTestStore, claim: str, queue: str = "q") -> None:
    """Lets a claim expire, and sweeps the queue."""
    ranks = [rank for rank, hold in _holds(store, queue).items() if hold.startswith(claim)]
    store.command("ZADD", store.key("leases", queue), 1, claim)
    for rank in ranks:
        store.command("ZADD", store.key("claimed", queue), 1, rank)
    store.queues.sweep(store.project, queue).run()
    assert claim not in store.leases(queue)


def _holds(store: SparkTestStore, queue: str) -> dict[int, str]:
    flat = store.command("HGETALL", store.key("holds", queue))
    return {int(rank): hold.decode() for rank, hold in zip(flat[::2], flat[1::2], strict=True)}


def test_batch_is_claimed_and_deleted_at_the_next_plan(store: SparkTestStore, start: Start) -> None:
    store.post(1, 2, 3)
    query = start(**CLAIM)
    assert query.plan()
    assert claimable(store) == []
    (lease,) = store.leases()
    assert query.end == {
        key(store): {
            "claims": f"{lease}:3",
            "epoch": store.watermarks().epoch,
            "offset": 1,
            "parts": 1,
        }
    }
    rows = query.read()
    assert values(rows) == [1, 2, 3]
    assert {row["claim_id"] for row in rows} == {lease}
    assert {row["claim_count"] for row in rows} == {1}
    query.finish()
    assert store.bodies() == [1, 2, 3]
    assert query.trigger() is None
    assert store.bodies() == []
    assert store.leases() == {}


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("before", ["browse", "claim"])
def test_checkpoint_of_the_other_kind_is_refused(
    store: SparkTestStore, start: Start, before: str, repeats: bool
) -> None:
    """Its numbers mean something else: messages would be read twice, or not at all."""
    browse = {"maxWait": "0s", "startingOffsets": "earliest"}
    kinds = {"browse": browse, "claim": CLAIM}
    store.post(1, 2, 3)
    query = start(**kinds.pop(before))
    assert query.plan()
    if not repeats:
        query.finish()
    (options,) = kinds.values()
    query.restart(store.source(subscribe="q", **options))
    with pytest.raises(BadConfiguration, match=f"of a stream with consume={before}; give one with"):
        query.partitions() if repeats else query.plan()


def test_progress_has_the_messages_that_a_claimed_batch_leaves(
    store: SparkTestStore, start: Start
) -> None:
    store.post(*range(5))
    query = start(maxOffsetsPerTrigger=2, **CLAIM)
    reported = []
    for _ in range(4):
        query.trigger()
        reported.append(query.reader.reportLatestOffset()[key(store)]["lag"])
    assert reported == [3, 1, 0, 0]


def test_batch_is_deleted_at_its_commit(store: SparkTestStore, start: Start) -> None:
    store.post(1, 2)
    query = start(**CLAIM)
    query.trigger()
    store.post(3)
    query.reader.commit(query.end)
    assert store.bodies() == [3]
    query.reader.commit(query.end)
    assert values(query.trigger() or []) == [3]


def test_every_message_comes_once(store: SparkTestStore, start: Start) -> None:
    store.post(*range(2500))
    query = start(maxOffsetsPerTrigger=700, **CLAIM)
    sizes, found = [], []
    while rows := query.trigger():
        sizes.append(len(rows))
        found += values(rows)
    assert sizes == [700, 700, 700, 400]
    assert found == list(range(2500))
    assert store.watermarks().count == 0


def test_unfinished_batch_is_read_from_the_same_claims(store: SparkTestStore, start: Start) -> None:
    store.post(*range(5))
    query = start(maxOffsetsPerTrigger=2, **CLAIM)
    query.trigger()
    query.plan()
    first = query.read()
    store.post("new")
    query.restart()
    again = query.read()
    steady = ("id", "rank", "body", "claim_id", "claim_count", "created")
    assert [[row[name] for name in steady] for row in again] == [
        [row[name] for name in steady] for row in first
    ]
    query.finish()
    assert values(query.drain()) == [4, "new"]
    assert store.bodies() == []


def test_unfinished_first_batch_is_repeated(store: SparkTestStore, start: Start) -> None:
    store.post(1, 2)
    query = start(**CLAIM)
    query.plan()
    store.post(3)
    query.restart()
    assert values(query.read()) == [1, 2]
    query.finish()
    assert values(query.drain()) == [3]


def test_finished_unacknowledged_batch_is_deleted_after_restart(
    store: SparkTestStore, start: Start
) -> None:
    store.post(1, 2)
    query = start(**CLAIM)
    query.trigger()
    query.restart()
    assert query.trigger() is None
    assert store.bodies() == []


def test_claimed_batch_missing_in_the_log_is_claimed_again(
    store: SparkTestStore, start: Start
) -> None:
    store.post(1, 2)
    query = start(**CLAIM)
    # The driver dies after the claim, before the log entry.
    query.latest()
    (lost,) = store.leases()
    query.restart()
    assert query.trigger() == []
    expire_claim(store, lost)
    assert values(query.trigger() or []) == [1, 2]
    assert query.trigger() is None
    assert store.bodies() == []


def test_batch_with_an_expired_claim_is_released_completely(
    store: SparkTestStore, start: Start
) -> None:
    store.post(*range(1500))
    query = start(**CLAIM)
    query.plan()
    claims = sorted(store.leases())
    assert len(claims) == 2
    query.stop()
    expire_claim(store, claims[0])
    query.restart()
    # A part of it would differ from the rows of the first attempt.
    assert query.read() == []
    assert store.leases() == {}
    query.finish()
    assert sorted(values(query.drain())) == list(range(1500))
    assert store.bodies() == []


def test_batch_with_a_deleted_message_is_released(store: SparkTestStore, start: Start) -> None:
    store.post(1, 2, 3)
    query = start(**CLAIM)
    query.plan()
    store.remove(2)
    query.restart()
    assert query.read() == []
    query.finish()
    assert values(query.drain()) == [1, 3]


def test_claim_that_ends_during_its_task_is_an_error(store: SparkTestStore, start: Start) -> None:
    store.post(1, 2, 3)
    query = start(**CLAIM)
    query.plan()
    (claim,) = store.leases()
    planned = query.partitions()
    expire_claim(store, claim)
    with pytest.raises(ClaimEnded, match='a claim of 3 messages of the queue "q" has ended'):
        list(query.reader.read(planned[0]))


def test_long_batch_is_split_into_tasks_by_claims(store: SparkTestStore, start: Start) -> None:
    store.post(*range(3500))
    query = start(maxRecordsPerPartition=1000, **CLAIM)
    query.plan()
    planned = query.partitions()
    assert [[count for _, count in each.claims] for each in planned] == [[1000]] * 3 + [[500]]
    assert values(query.read()) == list(range(3500))


def test_repeated_batch_has_the_same_tasks(store: SparkTestStore, start: Start) -> None:
    store.post(*range(25_000))
    query = start(minPartitions=2, **CLAIM)
    query.plan()
    shares = [each.claims for each in query.partitions()]
    assert len(shares) == 2
    query.restart(store.source(subscribe="q", minPartitions=7, **CLAIM))
    assert [each.claims for each in query.partitions()] == shares


def test_queues_are_claimed_in_turns(store: SparkTestStore, start: Start) -> None:
    store.post(*range(5000), queue="long")
    store.post("a", "b", queue="short")
    query = start(subscribe="long,short,empty", maxOffsetsPerTrigger=1500, **CLAIM)
    store.create("empty")
    rows = query.trigger() or []
    found = [row["queue"] for row in rows]
    assert (found.count("long"), found.count("short")) == (1498, 2)
    assert len(query.drain()) == 3502
    for queue in ("long", "short"):
        assert store.bodies(queue) == []


def test_max_bytes_limits_a_claimed_batch(store: SparkTestStore, start: Start) -> None:
    store.post(*["x" * 940] * 10)
    query = start(maxBytesPerTrigger="3k", **CLAIM)
    assert len(query.trigger() or []) == 3
    assert len(query.drain()) == 7


def test_delayed_messages_are_claimed_later(store: SparkTestStore, start: Start) -> None:
    store.create(_default_message_delay=5)
    store.post("late", delay=600)
    store.post("now", delay=0)
    assert values(start(**CLAIM).drain()) == ["now"]


def test_message_claimed_too_often_goes_to_the_dead_letter_queue(
    store: SparkTestStore, start: Start
) -> None:
    store.create(_max_claim_count=1, _dead_letter_queue="dead")
    store.create("dead")
    store.post("bad")
    taken = store.claim(1)
    assert taken.claim_id
    store.claims.delete(store.project, "q", taken.claim_id).run()
    store.post("good")
    query = start(**CLAIM)
    assert values(query.drain()) == ["good"]
    (dead_letter,) = batch(store.source(subscribe="dead"))
    assert (dead_letter["body"], dead_letter["dead_letter_from"]) == (b'"bad"', "q")


def test_available_now_ends_despite_new_posts(store: SparkTestStore, start: Start) -> None:
    store.post(*range(5))
    query = start(available_now=True, maxOffsetsPerTrigger=2, **CLAIM)
    found = []
    while (rows := query.trigger()) is not None:
        found += values(rows)
        store.post("later")
    assert found == [0, 1, 2, 3, 4]
    assert store.leases() == {}
    assert set(claimable(store)) == {"later"}


@pytest.mark.parametrize(
    ("posted", "why"), [([[2]], "deleted and created again"), ([], 'the queue "q" was deleted')]
)
def test_deleted_and_recreated_queues_are_data_loss(
    store: SparkTestStore, start: Start, posted: list[list[int]], why: str
) -> None:
    store.post(1)
    query, tolerant = start(**CLAIM), start(failOnDataLoss=False, **CLAIM | {"group": "h"})
    query.trigger()
    tolerant.trigger()
    store.delete()
    for bodies in posted:
        store.post(*bodies)
    with pytest.raises(DataLoss, match=why):
        query.plan()
    assert [values(rows) for rows in iter(tolerant.trigger, None)] == posted


def test_missing_claimed_queue_is_an_error(start: Start) -> None:
    with pytest.raises(BadConfiguration, match='there is no queue "q"'):
        start(**CLAIM).plan()


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets group leases expire after a second: they are renewed four times in that."""
    monkeypatch.setattr("zaqar_redis.spark.reading.group_lease._LEASE_SECONDS", 1.0)


@pytest.mark.usefixtures("short_lease")
def test_claims_are_renewed_until_their_batch_is_finished(
    store: SparkTestStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.reading.group_lease._RENEWALS_PER_TTL", 600)
    store.post(1)
    query = start(claimTtl="60s", **CLAIM)
    query.plan()
    ((claim, end),) = store.leases().items()
    servers.wait_for(lambda: store.leases()[claim] > end + 200, "the lease to move on")
    assert store.leases()[claim] - end < 60_000
    # Claims of a finished batch are not renewed.
    query.finish()
    assert query.trigger() is None
    assert store.leases() == {}


def test_second_stream_of_a_group_is_refused(
    store: SparkTestStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.reading.group_lease._ACQUIRE_TIMEOUT_SECONDS", 0.5)
    store.post(1)
    query = start(**CLAIM)
    query.plan()
    other = start(**CLAIM)
    with pytest.raises(GroupTaken, match=r'option "group": another stream .* group "g"'):
        other.plan()
    # Another group is not affected.
    start(**CLAIM | {"group": "h"}).plan()
    query.stop()
    store.post(2)
    other.plan()


@pytest.mark.usefixtures("short_lease")
def test_stream_that_lost_its_group_claims_nothing(store: SparkTestStore, start: Start) -> None:
    store.post(1)
    query = start(**CLAIM)
    query.trigger()
    # As after a pause longer than its lease, which may have ended on a busy machine.
    role = control_keys.RoleKeys(f"spark:{quote(store.project, safe='')}:g").role
    store.command("SET", role, "another", "PX", 600_000)
    servers.wait_for(lambda: _refused(query), "the stream to notice")
    with pytest.raises(GroupTaken, match=r'the group "g" was taken over by another stream'):
        query.plan()


def _refused(query: SimulatedQuery) -> bool:
    try:
        query.reader.initialOffset()
        query.latest()
    except GroupTaken:
        return True
    return False


def test_claiming_and_browsing_sources_read_the_same_queue(
    store: SparkTestStore, start: Start
) -> None:
    store.post(1, 2)
    browsing = start(startingOffsets="earliest", maxWait="0s")
    claiming: SimulatedQuery = start(**CLAIM)
    assert values(claiming.trigger() or []) == [1, 2]
    assert values(browsing.trigger() or []) == [1, 2]
    claiming.trigger()
    store.post(3)
    assert values(browsing.trigger() or []) == [3]
