# SPDX-License-Identifier: Apache-2.0
"""Alarms: what is wrong with a store or a node, and nothing about what is well."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from zaqar_redis.figures import Alarm, StoreStatus
from zaqar_redis.realtime.node.control import NodeReport
from zaqar_redis.service.alarms import node_alarms, sort_alarms, store_alarms
from zaqar_redis.service.queue_alarms import duration
from zaqar_redis.service.stores import StoreReport

GIB = 2**30
HEALTHY = StoreStatus(
    run="a",
    version="7.0.15",
    uptime=100,
    now=1,
    memory_used=GIB,
    memory_max=4 * GIB,
    memory_policy="noeviction",
    memory_machine=8 * GIB,
    clients=1,
    commands=1,
    role="master",
    has_master=True,
    replicas=1,
    replicas_lagging=0,
    aof=True,
    aof_works=True,
    rdb_works=True,
    snapshots=False,
    last_snapshot=1,
    evicted=0,
)
STORE = StoreReport("queues", "p1", True, latency=1.0, clock_skew=5.0, status=HEALTHY)
NODE = NodeReport("id", "host_1", "1.0", 0, 0, 0, 0, 10, cpu=0.1, memory=1, loop_lag=2.0)


def of_status(**changes: Any) -> list[tuple[str, str]]:
    report = replace(STORE, status=replace(HEALTHY, **changes))
    return [(alarm.severity, alarm.text) for alarm in store_alarms(report)]


def test_healthy_stores_and_nodes_raise_no_alarm() -> None:
    assert list(store_alarms(STORE)) == []
    assert list(store_alarms(StoreReport("channels", "channels", True, latency=1.0))) == []
    assert list(node_alarms([NODE], [])) == []
    # A node of an older version tells less.
    assert list(node_alarms([NodeReport("id", "host_1", "1.0", 0, 0, 0, 0, 10)], [])) == []
    assert of_status(memory_max=0, memory_policy="allkeys-lru") == []  # it has nothing to evict


@pytest.mark.parametrize(
    ("changes", "severity", "text"),
    [
        ({"memory_used": 3.5 * GIB}, "warning", "uses 88% of its limit of 4 GiB. When it is full"),
        ({"memory_used": 3.9 * GIB}, "critical", "uses 98% of its limit of 4 GiB."),
        (
            {"memory_max": 0, "memory_used": 7 * GIB},
            "warning",
            "uses 88% of its machine's memory of 8 GiB.",
        ),
        ({"memory_policy": "allkeys-lru"}, "warning", "evicts keys when it is full"),
        ({"memory_policy": "volatile-ttl", "evicted": 3}, "critical", "3 keys have so far"),
        ({"aof": False}, "warning", "does not persist anything"),
        ({"aof_works": False}, "critical", "cannot write its append-only file"),
        ({"rdb_works": False}, "warning", "could not write its last snapshot"),
        (
            {"rdb_works": False, "aof": False, "snapshots": True},
            "critical",
            "could not write its last snapshot",
        ),
        ({"role": "slave"}, "critical", "is a replica: it accepts no writes"),
        ({"replicas_lagging": 1}, "warning", "has 1 of 1 replicas that lag behind"),
    ],
)
def test_status_of_a_store_raises_an_alarm(
    changes: dict[str, Any], severity: str, text: str
) -> None:
    ((found, said),) = of_status(**changes)
    assert found == severity
    assert said.startswith("Store p1 ")
    assert text in said


def test_replica_without_its_master_raises_two_alarms() -> None:
    assert [text for _, text in of_status(role="slave", has_master=False)] == [
        "Store p1 is a replica: it accepts no writes.",
        "Store p1 is a replica without a connection to its master.",
    ]


def test_persistence_that_is_not_known_raises_no_alarm() -> None:
    assert of_status(aof=False, snapshots=None) == []
    assert of_status(aof=False, snapshots=True) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "queues",
            "Store p1 is away: requests for its queues get 503 until it is back. (no route)",
        ),
        ("control", "The control store is away"),
        ("channels", "The store of channels is away: clients of channels get nothing."),
    ],
)
def test_store_that_is_away_is_critical(kind: Any, text: str) -> None:
    (alarm,) = store_alarms(StoreReport(kind, "p1", False, "no route"))
    assert (alarm.severity, alarm.subject) == ("critical", "store p1")
    assert alarm.text.startswith(text)
    assert alarm.text.endswith("(no route)")
    assert alarm.remedy


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"latency": 450.0}, "Store p1 took 450 ms to answer."),
        ({"clock_skew": 61_000.0}, "Store p1 has a clock that is 61 s ahead of this node's."),
        ({"clock_skew": -5_000.0}, "Store p1 has a clock that is 5 s behind this node's."),
    ],
)
def test_slow_store_or_wrong_clock_raises_an_alarm(changes: dict[str, Any], text: str) -> None:
    assert [alarm.text for alarm in store_alarms(replace(STORE, **changes))] == [text]


def test_nodes_in_trouble_raise_alarms() -> None:
    late = replace(NODE, loop_lag=900.0)
    alone = replace(NODE, name="host_2", unavailable=["default", "p1"])
    texts = [alarm.text for alarm in node_alarms([late, alone], [("host_3", 95.0)])]
    assert texts == [
        "Node host_1 stood still for 900 ms: its requests waited.",
        "Node host_2 cannot reach the store default, p1.",
        "Node host_3 answered 1 min 35 s ago, and does not now: it was stopped, stands still or "
        "has lost its store.",
    ]


def test_store_that_this_node_cannot_reach_either_is_no_alarm_about_nodes() -> None:
    alone = replace(NODE, unavailable=["default", "p1"])
    assert [alarm.text for alarm in node_alarms([alone], [], {"p1"})] == [
        "Node host_1 cannot reach the store default."
    ]
    assert list(node_alarms([alone], [], {"default", "p1"})) == []


def test_most_urgent_alarms_come_first() -> None:
    alarms = [
        Alarm(severity, "", "", "") for severity in ("info", "critical", "warning", "critical")
    ]
    assert [alarm.severity for alarm in sort_alarms(alarms)] == [
        "critical",
        "critical",
        "warning",
        "info",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59, "59 s"), (600, "10 min"), (3725, "1 h 2 min"), (180_000, "2 d 2 h")],
)
def test_durations_are_told_in_words(seconds: int, words: str) -> None:
    assert duration(seconds) == words
