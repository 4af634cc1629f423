# SPDX-License-Identifier: Apache-2.0
"""Alarms: what is wrong with a store or a node, and nothing about what is well."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from zaqar_redis.figures import Alarm, LargeQueue, StoreSettings, StoreStatus
from zaqar_redis.realtime.node.control import NodeReport
from zaqar_redis.service.alarms import node_alarms, reached_by_others, sort_alarms, store_alarms
from zaqar_redis.service.queue_alarms import duration
from zaqar_redis.service.stores import StoreReport

GIB = 2**30
SETTINGS = StoreSettings(
    snapshots=False,
    appendfsync="everysec",
    bind=("127.0.0.1", "-::1"),
    port=6379,
    tls_port=0,
    protected=True,
    password=False,
)
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
    clients_max=100,
    clients_rejected=0,
    commands=1,
    role="master",
    has_master=True,
    loading=False,
    replicas=1,
    replicas_lagging=0,
    cluster_replicas=None,
    ack_replicas=0,
    aof=True,
    aof_works=True,
    aof_rewrite_works=True,
    rdb_works=True,
    last_snapshot=1,
    not_in_snapshot=5,
    evicted=0,
    settings=SETTINGS,
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


@pytest.mark.parametrize(
    ("changes", "severity", "text"),
    [
        ({"memory_used": 3.5 * GIB}, "warning", "uses 88% of its limit of 4 GiB. When it is full"),
        ({"memory_used": 3.9 * GIB}, "critical", "uses 98% of its limit of 4 GiB."),
        ({"memory_policy": "allkeys-lru"}, "warning", "evicts keys when it is full"),
        ({"memory_policy": "volatile-ttl", "evicted": 3}, "critical", "3 keys have so far"),
        ({"evicted": 7}, "warning", "has evicted 7 keys"),
        ({"aof": False}, "critical", "does not persist anything"),
        ({"aof_works": False}, "critical", "cannot write its append-only file"),
        ({"rdb_works": False}, "warning", "could not write its last snapshot"),
        ({"aof_rewrite_works": False}, "warning", "could not rewrite its append-only file"),
        ({"version": "6.0.16"}, "critical", "has Redis 6.0.16, which is too old"),
        ({"loading": True}, "warning", "is still loading"),
        ({"clients": 90}, "warning", "has 90 of 100 connections in use"),
        ({"clients_rejected": 3}, "warning", "has rejected 3 connections"),
        ({"settings": None}, "info", "CONFIG or ACL is not allowed"),
        ({"role": "slave"}, "critical", "is a replica: it accepts no writes"),
        ({"replicas_lagging": 1}, "warning", "has 1 of 1 replicas that lag behind"),
        ({"ack_replicas": 2}, "critical", "has 1 connected replicas, and [redis] ack_replicas is"),
        ({"cluster_replicas": 0}, "warning", "has a primary without a connected replica"),
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


def test_store_without_a_memory_limit_is_judged_by_its_machine() -> None:
    assert [severity for severity, _ in of_status(memory_max=0)] == ["info"]
    # It has nothing to evict.
    evicting = of_status(memory_max=0, memory_policy="allkeys-lru")
    assert [severity for severity, _ in evicting] == ["info", "info"]
    _, (severity, text) = of_status(memory_max=0, memory_used=7 * GIB)
    assert severity == "warning"
    assert "uses 88% of its machine's memory of 8 GiB." in text


def test_memory_of_a_store_that_is_nearly_full_names_its_largest_queues() -> None:
    full = replace(STORE, status=replace(HEALTHY, memory_used=3.5 * GIB))
    largest = [LargeQueue("shop", "exports", 572, 2 * GIB), LargeQueue("shop", "mails", 1, 900)]
    (alarm,) = store_alarms(full, largest)
    assert alarm.text == (
        "Store p1 uses 88% of its limit of 4 GiB. When it is full, posts get 507. Its largest "
        "queues: exports of shop (572 messages, about 2 GiB), mails of shop (1 message, about "
        "900 bytes)."
    )
    assert list(store_alarms(STORE, largest)) == []


def test_deliveries_that_nobody_makes_raise_an_alarm_that_names_queues() -> None:
    late = [("shop", "orders"), ("shop", "topic:news"), ("a", "b"), ("c", "d")]
    (alarm,) = store_alarms(replace(STORE, late=late))
    assert alarm.severity == "warning"
    assert alarm.text == (
        "Store p1 has deliveries to subscribers that nobody has made for more than a minute, of "
        "queue orders of shop, topic news of shop, queue b of a and at least 1 more."
    )
    assert "zaqar-redis notify" in alarm.remedy


def test_persistence_that_is_not_known_raises_no_alarm() -> None:
    assert [text for _, text in of_status(aof=False, settings=None) if "persist" in text] == []


def test_snapshots_alone_are_worth_knowing_and_old_or_failed_ones_are_alarms() -> None:
    alone = {"aof": False, "settings": replace(SETTINGS, snapshots=True)}
    recent = alone | {"last_snapshot": round(time.time())}
    assert [severity for severity, _ in of_status(**recent)] == ["info"]
    assert [severity for severity, _ in of_status(**alone)] == ["info", "warning"]
    assert [severity for severity, _ in of_status(**alone, not_in_snapshot=0)] == ["info"]
    severity, text = of_status(**recent, rdb_works=False)[-1]
    assert (severity, "could not write its last snapshot" in text) == ("critical", True)


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ({"bind": (), "protected": False}, "warning"),
        ({"bind": ("10.0.0.7",), "protected": False}, "warning"),
        ({"bind": ("*", "-::*"), "protected": False}, "warning"),
        ({"protected": False}, "info"),
        ({"bind": ("10.0.0.7",), "password": True}, "info"),
        ({"appendfsync": "no"}, "info"),
    ],
)
def test_settings_of_a_store_are_judged(changes: dict[str, Any], severity: str) -> None:
    ((found, _),) = of_status(settings=replace(SETTINGS, **changes))
    assert found == severity
    # Nobody reaches it but by a Unix socket.
    closed = replace(SETTINGS, **changes, port=0)
    assert len(of_status(settings=closed)) == ("appendfsync" in changes)


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
    ("changes", "severity", "text"),
    [
        ({"latency": 50.0}, "info", "took 50 ms to answer."),
        ({"latency": 450.0}, "warning", "took 450 ms to answer."),
        ({"clock_skew": 61e3}, "critical", "has a clock that is 61 s ahead of this machine's."),
        ({"clock_skew": -5e3}, "warning", "has a clock that is 5 s behind this machine's."),
    ],
)
def test_slow_store_or_wrong_clock_raises_an_alarm(
    changes: dict[str, Any], severity: str, text: str
) -> None:
    (alarm,) = store_alarms(replace(STORE, **changes))
    assert (alarm.severity, alarm.text) == (severity, f"Store p1 {text}")


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


def test_store_that_another_node_reaches_is_not_away() -> None:
    own = replace(NODE, node="own", unavailable=["p1", "p2"])
    other = replace(NODE, node="other", cpu=0.1, unavailable=["p2"])
    older = replace(NODE, node="older", cpu=None)
    away = {"p1", "p2"}
    assert reached_by_others(away, [own, other, older], "own") == {"p1"}
    assert reached_by_others(away, [own, older], "own") == set()


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
