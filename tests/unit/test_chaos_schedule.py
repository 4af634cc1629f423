# SPDX-License-Identifier: Apache-2.0
"""The schedule of faults is decided by its seed; records outlive the processes that write them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.chaos import history, report, schedule
from benchmarks.chaos.faults import FAULTS
from benchmarks.chaos.history import Act, ActOutcome, ActRecorder
from benchmarks.chaos.report import AppliedFault
from benchmarks.chaos.schedule import FaultTarget, PlannedFault
from benchmarks.chaos.topologies import TOPOLOGIES
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
