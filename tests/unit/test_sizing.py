# SPDX-License-Identifier: Apache-2.0
"""What a load needs, and that the document has the figures of the code."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from tests.conventions.files import ROOT
from zaqar_redis import errors
from zaqar_redis.sizing import costs
from zaqar_redis.sizing.plan import FORK_FACTOR, ClusterLoad, plan, rows

#: 1000 messages a second without a peak, on cores that are used by half.
_LOAD = ClusterLoad(messages=1000, peak=1, claims=0)

#: Rows of the document.
_ACTS = {
    "post of 1": costs.POST_1,
    "post of 100": costs.POST_100,
    "claim of 1, and deletion": costs.CLAIM_1,
    "claim of 10, and deletion": costs.CLAIM_10,
    "long poll that waits, each second": costs.WAITING,
    "publication, kept": costs.PUBLICATION,
    "publication that a worker receives": costs.RECEIPT,
    "delivery to a socket": costs.DELIVERY,
    "ping of a socket": costs.PING,
}
_SIZES = {
    "a message, beside its body": costs.MESSAGE,
    "more while it is claimed": costs.CLAIMED,
    "a queue with a message, beside this": costs.QUEUE,
    "the route of a queue, with pools": costs.ROUTE,
    "a long poll that waits, of the worker": costs.POLL,
    "a WebSocket with one subscription": costs.SOCKET,
    "a worker without connections": costs.WORKER,
}


def _with(**changed: Any) -> ClusterLoad:
    return structs.replace(_LOAD, **changed)


@pytest.mark.parametrize(("batch", "cost"), [(1, costs.POST_1), (100, costs.POST_100)])
def test_posts_cost_what_was_measured_for_their_size(batch: int, cost: costs.ActCost) -> None:
    found = plan(_with(batch=batch))
    assert found.worker_cores == pytest.approx(1000 * cost.worker / batch / 1e6)
    assert found.redis_cores == pytest.approx(1000 * cost.redis / batch / 1e6)


@pytest.mark.parametrize(("batch", "cost"), [(1, costs.CLAIM_1), (10, costs.CLAIM_10)])
def test_claims_add_what_was_measured_for_their_size(batch: int, cost: costs.ActCost) -> None:
    without, found = plan(_with(batch=batch)), plan(_with(batch=batch, claims=2))
    added = found.redis_cores - without.redis_cores
    assert added == pytest.approx(2 * 1000 * cost.redis / batch / 1e6)


def test_claims_are_no_larger_than_a_service_allows() -> None:
    claimed = [
        plan(_with(batch=batch, claims=1)).redis_cores - plan(_with(batch=batch)).redis_cores
        for batch in (20, 100)
    ]
    assert claimed[0] == pytest.approx(claimed[1])


def test_peak_counts_for_cpu_and_network_and_not_for_memory() -> None:
    calm, busy = plan(_LOAD), plan(_with(peak=3))
    assert busy.redis_cores == pytest.approx(3 * calm.redis_cores)
    assert busy.client_network == pytest.approx(3 * calm.client_network)
    assert busy.data_bytes == calm.data_bytes


def test_memory_counts_messages_as_long_as_they_stay_and_queues() -> None:
    found = plan(_with(retention=100, size=500, queues=7))
    message = 500 + costs.MESSAGE
    assert found.data_bytes == pytest.approx(1000 * 100 * message + 7 * costs.QUEUE)
    claimed = plan(_with(retention=100, size=500, queues=7, claims=1))
    assert claimed.data_bytes - found.data_bytes == pytest.approx(1e5 * costs.CLAIMED)


def test_primaries_are_those_of_cpu_or_of_memory_whichever_are_more() -> None:
    cpu = plan(_with(messages=200_000, retention=1, queues=100))
    assert cpu.primaries == cpu.primaries_by_cpu > cpu.primaries_by_memory == 1
    memory = plan(_with(retention=86_400, queues=100))
    assert memory.primaries == memory.primaries_by_memory > memory.primaries_by_cpu == 1
    assert memory.primary_bytes * memory.primaries == pytest.approx(memory.data_bytes)
    assert memory.primary_bytes <= memory.maxmemory * 1e9 <= _LOAD.maxmemory * 1e9


def test_utilisation_leaves_room_for_workers_and_redis() -> None:
    full, half = plan(_with(messages=100_000, utilisation=0.9)), plan(_with(messages=100_000))
    assert half.primaries_by_cpu > full.primaries_by_cpu
    assert half.workers > full.workers
    for found, share in ((full, 0.9), (half, 0.5)):
        assert found.worker_cores / found.workers <= share
        assert found.redis_cores / found.primaries <= share


def test_each_worker_with_subscribers_receives_a_publication() -> None:
    load = ClusterLoad(publications=1000, peak=1, fan_out=1000)
    found = plan(load)
    each = costs.PUBLICATION.worker + 1000 * costs.DELIVERY.worker
    received = found.workers * costs.RECEIPT.worker
    assert found.worker_cores == pytest.approx(1000 * (each + received) / 1e6)
    assert found.worker_cores <= found.workers * load.utilisation
    alone = plan(ClusterLoad(publications=10_000, peak=1, fan_out=1))
    each = costs.PUBLICATION.worker + costs.DELIVERY.worker + costs.RECEIPT.worker
    assert alone.worker_cores == pytest.approx(10_000 * each / 1e6)


def test_sockets_cost_pings_and_memory() -> None:
    found = plan(ClusterLoad(sockets=1_000_000))
    pings = 1_000_000 / costs.PING_INTERVAL * costs.PING.worker / 1e6
    assert found.worker_cores == pytest.approx(pings)
    base = found.workers * costs.WORKER
    assert found.worker_bytes - base == pytest.approx(1_000_000 * costs.SOCKET)
    assert (found.workers, found.sockets_per_worker) == (100, 10_000)
    assert plan(ClusterLoad(sockets=1_000_000, worker_sockets=40_000)).workers == 25


def test_nodes_hold_all_processes_and_copies_on_different_ones_and_one_is_spare() -> None:
    load = _with(messages=100_000, replicas=2, queues=100)
    found = plan(load)
    cores = found.worker_cores / load.utilisation + found.primaries + found.replicas
    assert found.replicas == 2 * found.primaries
    assert (found.nodes - 1) * load.cores >= cores
    needed = (found.primaries + found.replicas) * found.maxmemory * FORK_FACTOR * 1e9
    assert (found.nodes - 1) * load.memory * 1e9 >= needed + found.worker_bytes
    assert plan(_with(messages=1, replicas=2)).nodes == 4


def test_replication_copies_what_is_written_to_each_replica() -> None:
    one, two = plan(_with(replicas=1)), plan(_with(replicas=2))
    assert two.replication_network == pytest.approx(2 * one.replication_network)
    assert plan(_with(replicas=0)).replication_network == 0


def test_catalogue_is_needed_with_pools_only() -> None:
    assert plan(_with(queues=1000)).catalogue_bytes == 0
    many = plan(_with(queues=1000, messages=200_000))
    assert many.catalogue_bytes == pytest.approx(1000 * costs.ROUTE)


def test_fewer_queues_than_primaries_and_no_replicas_are_warned_of() -> None:
    assert plan(_LOAD).warnings == []
    [few] = plan(_with(messages=200_000)).warnings
    assert "1 queues cannot use" in few
    [single] = plan(_with(replicas=0)).warnings
    assert "Without replicas" in single


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"messages": -1.0}, "--messages: it must be 0 to 1000000000000"),
        ({"messages": float("nan")}, "--messages: it must be"),
        ({"publications": float("inf")}, "--publications: it must be"),
        ({"size": 0}, "--size: it must be 1 to"),
        ({"retention": 0.0}, "--retention: it must be 1 to"),
        ({"queues": 0}, "--queues: it must be 1 to"),
        ({"batch": 101}, "--batch: it must be 1 to 100"),
        ({"fan_out": -1.0}, "--fan-out: it must be 0 to"),
        ({"replicas": 6}, "--replicas: it must be 0 to 5"),
        ({"peak": 0.5}, "--peak: it must be 1 to 1000"),
        ({"utilisation": 1.0}, "--utilisation: it must be 0.05 to 0.9"),
        ({"maxmemory": 40.0}, "needs a node with 80 GB, because it forks"),
        ({"messages": 0.0}, "there is no load"),
    ],
)
def test_bad_load_is_refused(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(errors.BadConfiguration) as refused:
        _with(**changed)
    assert text in str(refused.value)


def test_every_row_says_what_it_follows_from() -> None:
    for row in rows(_LOAD, plan(_LOAD)):
        assert row.what
        assert row.because
        assert row.needed >= 0


def test_document_has_the_figures_of_the_code() -> None:
    text = (ROOT / "doc/scale.md").read_text()
    for act, cost in _ACTS.items():
        redis = f"{cost.redis:g}" if cost.redis else ""
        assert f"| {act} | {cost.worker:g} | {redis} | `benchmarks." in text
    for what, size in _SIZES.items():
        assert f"| {what} | {f'{size:,}'.replace(',', ' ')} bytes | `benchmarks." in text
