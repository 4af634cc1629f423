# SPDX-License-Identifier: Apache-2.0
"""A run of chaos: its schedule and records, what it sees of failovers, what faults may undo."""

from __future__ import annotations

import math
from collections.abc import Set
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.chaos import expected, history, report, schedule
from benchmarks.chaos.faults import FAULTS
from benchmarks.chaos.history import Act, ActOutcome, ActRecorder
from benchmarks.chaos.report import AppliedFault
from benchmarks.chaos.schedule import FaultTarget, PlannedFault
from benchmarks.chaos.topologies import TOPOLOGIES, Topology
from tests.support.redis_node import RedisNode
from zaqar_redis import errors

_CHOICES = [FaultTarget("kill", "primary"), FaultTarget("pause", "worker")]
_LASTS = {"kill": (1.0, 2.0), "pause": (2.0, 3.0)}


def test_schedule_of_a_seed_is_the_same_each_time() -> None:
    first, again = (schedule.plan(7, 120, _CHOICES, _LASTS) for _ in range(2))
    assert first == again
    assert first != schedule.plan(8, 120, _CHOICES, _LASTS)


def test_schedule_has_all_faults_before_one_comes_again_and_never_two_at_a_time() -> None:
    plan = schedule.plan(7, 300, _CHOICES, _LASTS)
    assert len(plan) > 20
    for first, second in zip(plan[::2], plan[1::2], strict=False):
        assert {first.what, second.what} == set(_CHOICES)
    for before, after in pairwise(plan):
        assert before.at + before.seconds < after.at
    assert plan[-1].at + plan[-1].seconds + schedule.COOL_DOWN <= 300


def test_schedule_of_a_short_time_is_empty() -> None:
    assert schedule.plan(7, schedule.WARM_UP + schedule.COOL_DOWN, _CHOICES, _LASTS) == []


def test_faults_are_selected_by_name_or_with_a_target() -> None:
    kill, pause = _CHOICES
    assert schedule.select([], _CHOICES) == _CHOICES
    assert schedule.select(["kill"], _CHOICES) == [kill]
    assert schedule.select(["pause:worker"], _CHOICES) == [pause]


def test_unknown_fault_is_refused_with_the_known_ones() -> None:
    with pytest.raises(errors.BadConfiguration, match=r"no fault burn here.*kill:primary"):
        schedule.select(["burn"], _CHOICES)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_fault_of_a_topology_is_in_the_table(topology: str) -> None:
    choices = TOPOLOGIES[topology].faults
    assert {each.fault for each in choices} <= set(FAULTS)
    assert len(set(choices)) == len(choices)


def test_act_whose_client_was_killed_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "a.acts"
    recorder = ActRecorder(file, "c")
    recorder.end(recorder.begin("post", "q", ["a"]), ActOutcome.OK, 201)
    recorder.begin("post", "q", ["b"])
    recorder.close()
    with file.open("ab") as cut_off:
        cut_off.write(b'{"client": "c", "num')
    done, begun = history.read([file])
    assert (done.bodies, done.outcome, done.status) == (["a"], ActOutcome.OK, 201)
    assert (begun.bodies, begun.outcome, begun.end) == (["b"], ActOutcome.UNKNOWN, float("inf"))


def test_time_away_is_the_longest_of_the_place_that_missed_it_longest() -> None:
    times = {"calm": [0, 1, 2, 3, 4, 5, 6], "struck": [0, 1, 5, 6]}
    acts = [
        Act("c", number, "post", time, place, time, ActOutcome.OK)
        for place, several in times.items()
        for number, time in enumerate(several)
    ]
    planned = PlannedFault(1.5, FaultTarget("kill", "primary"), 2)
    (row,) = report.fault_rows([AppliedFault(planned, 1.5, 3.5, 4)], acts)
    assert (row.what, row.away, row.place) == ("kill:primary", 3.5, "struck")


class _Replaced(Topology):
    """Names other primaries each time it is asked; well when it has named the last ones."""

    faults = ()

    def __init__(self) -> None:
        self.coming: list[Set[int]] = []

    @property
    def uri(self) -> str:
        return "redis://changing"

    def node(self, target: str) -> RedisNode | None:
        return None

    def primaries(self) -> Set[int]:
        if not self.coming[0]:
            raise KeyboardInterrupt
        return self.coming.pop(0)

    def is_settled(self) -> bool:
        return not self.coming


@pytest.mark.parametrize(
    ("primaries", "replaced"),
    [
        pytest.param([{1}, {1}, {2}, {2}, {1}], 2, id="replaced and back"),
        pytest.param([{1, 2, 3}] * 3, 0, id="all stay"),
        pytest.param([{1, 2, 3}, {2, 3}, {2, 3, 4}], 1, id="one of several"),
    ],
)
def test_replaced_primaries_are_counted(primaries: list[Set[int]], replaced: int) -> None:
    topology = _Replaced()
    topology.coming = primaries[:1]
    topology.settle()
    topology.coming = primaries[1:]
    assert topology.settle() == replaced


def test_replacement_seen_before_an_interrupt_is_counted_afterwards() -> None:
    topology = _Replaced()
    topology.coming = [{1}]
    topology.settle()
    topology.coming = [{2}, set()]
    with pytest.raises(KeyboardInterrupt):
        topology.settle()
    topology.coming = [{2}]
    assert topology.settle() == 1


def _fault(name: str, replacements: int = 1, target: str = "primary") -> AppliedFault:
    """From second 10 to 12; the store is well at 15."""
    planned = PlannedFault(10, FaultTarget(name, target), 2)
    return AppliedFault(planned, 10, 12, 15, replacements)


def _post(end: float) -> Act:
    return Act("c", 0, "post", end - 1, "q", end, ActOutcome.OK)


def _doubtful(fault: AppliedFault, ack_replicas: int, lag: float = 0) -> list[float]:
    is_at_risk = expected.at_risk([fault], ack_replicas, 2, lag)
    return [end for end in (7, 9, 11, 14, 16) if is_at_risk(_post(end))]


@pytest.mark.parametrize(
    ("name", "ack_replicas", "doubtful"),
    [
        pytest.param("hold", 2, [], id="all replicas confirm"),
        pytest.param("hold", 1, [11, 14], id="the old primary lives on"),
        pytest.param("kill", 1, [], id="the old primary is dead"),
        pytest.param("kill", 0, [11, 14], id="no replica confirms"),
    ],
)
def test_act_is_at_risk_while_a_primary_is_replaced(
    name: str, ack_replicas: int, doubtful: list[float]
) -> None:
    assert _doubtful(_fault(name), ack_replicas) == doubtful


def test_primary_replaced_after_the_killed_one_or_beside_another_fault_lives_on() -> None:
    assert _doubtful(_fault("kill", replacements=2), 1) == [11, 14]
    assert _doubtful(_fault("kill", target="worker"), 1) == [11, 14]


def test_act_shortly_before_the_fault_is_at_risk_within_the_lag() -> None:
    assert _doubtful(_fault("kill"), 0, lag=2) == [9, 11, 14]


@pytest.mark.parametrize("name", ["hold", "kill", "delay"])
def test_fault_that_replaced_no_primary_puts_nothing_at_risk(name: str) -> None:
    fault = _fault(name, replacements=0)
    assert _doubtful(fault, 0, lag=2) == []
    assert not expected.while_replaced([fault], 2)(_post(11))


def test_act_without_an_answer_is_at_risk_from_its_begin_on() -> None:
    is_at_risk = expected.at_risk([_fault("hold")], 1, 2, 0)
    for begin, at_risk in ((2, True), (14, True), (16, False)):
        unknown = Act("c", 0, "post", begin, "q", math.inf)
        assert is_at_risk(unknown) == at_risk


def test_act_that_ended_just_beside_a_failover_is_within_its_margin() -> None:
    is_replaced = expected.while_replaced([_fault("kill")], 2)
    assert [end for end in (7, 9, 11, 16, 18) if is_replaced(_post(end))] == [9, 11, 16]
