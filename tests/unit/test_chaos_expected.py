# SPDX-License-Identifier: Apache-2.0
"""What faults may undo, and what they may not: the exceptions that the documents name."""

from __future__ import annotations

import math

import pytest

from benchmarks.chaos import expected
from benchmarks.chaos.history import Act, ActOutcome
from benchmarks.chaos.report import AppliedFault
from benchmarks.chaos.schedule import FaultTarget, PlannedFault


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
