# SPDX-License-Identifier: Apache-2.0
"""The simulation of pools: the same for a seed, and nothing is lost or moved in vain."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.simulation.scenario import Simulation, SimulationResult, SimulationSettings
from tests.benchmarks.benchmark_process import BenchmarkProcess, rows
from zaqar_redis import errors

_SETTINGS = SimulationSettings(queues=4000, pools=200, messages=40_000, seed=7)


def _run(settings: SimulationSettings) -> tuple[Simulation, SimulationResult]:
    simulation = Simulation(settings)
    return simulation, asyncio.run(simulation.run(lambda text: None))


@pytest.fixture(scope="module")
def ended() -> tuple[Simulation, SimulationResult]:
    return _run(_SETTINGS)


def test_same_seed_gives_the_same_result_and_another_seed_another_one(
    ended: tuple[Simulation, SimulationResult],
) -> None:
    assert _run(_SETTINGS)[1] == ended[1]
    other = SimulationSettings(queues=4000, pools=200, messages=40_000, seed=8)
    assert _run(other)[1].queues_by_pool != ended[1].queues_by_pool


def test_every_queue_is_in_exactly_one_pool_that_exists(
    ended: tuple[Simulation, SimulationResult],
) -> None:
    simulation, found = ended
    catalogue = simulation.installation.control.catalogue
    held = Counter(
        (queue, name) for name in simulation.installation.names() for queue in catalogue.names(name)
    )
    assert set(held.values()) == {1}
    assert dict(held.keys()) == catalogue.pool_of
    assert len(held) == _SETTINGS.queues + found.created_meanwhile
    assert sum(found.queues_by_pool) == _SETTINGS.queues


def test_drained_pool_is_empty_and_another_one_cannot_be_deleted() -> None:
    simulation = Simulation(_SETTINGS)
    installation = simulation.installation

    async def drained() -> str:
        for number in range(200):
            await installation.create_queue(f"queue-{number:07d}")
        fullest = max(
            installation.names(), key=lambda name: len(installation.control.catalogue.names(name))
        )
        with pytest.raises(errors.PoolInUse):
            installation.delete_pool(fullest)
        await installation.drain([fullest])
        return fullest

    name = asyncio.run(drained())
    assert installation.control.catalogue.names(name) == []
    installation.delete_pool(name)
    assert name not in installation.names()


def test_queues_that_are_created_while_pools_fail_get_others(
    ended: tuple[Simulation, SimulationResult],
) -> None:
    _, found = ended
    assert found.created_meanwhile > 0
    assert found.created_in_failed == 0
    assert 0 < found.unavailable < 0.1


def test_moved_share_is_near_the_optimum_and_rebalanced_pools_are_even(
    ended: tuple[Simulation, SimulationResult],
) -> None:
    _, found = ended
    drained, rebalanced, added, removed, middle = found.moved
    assert drained.moved == drained.optimum > 0
    assert rebalanced.optimum <= rebalanced.moved < 1.1 * rebalanced.optimum
    for share in (added, removed):
        assert 0.5 * share.optimum < share.moved < 1.5 * share.optimum
    assert middle.moved > 10 * middle.optimum  # all shards behind it have other numbers
    created, _, after = found.spreads
    assert created.queues > 1.1
    assert after.queues < 1.06  # one queue more than the average of 20


def test_busier_queues_spread_load_less_evenly_and_times_are_added_up(
    ended: tuple[Simulation, SimulationResult],
) -> None:
    _, found = ended
    loads = list(found.spreads[0].loads.values())
    assert loads == sorted(loads)
    for exponent, load in found.spreads[0].loads.items():
        assert load >= found.busiest_queue[exponent]
    assert sum(each.messages for each in found.recoveries) == pytest.approx(_SETTINGS.messages)
    assert 0 < found.drain_seconds < found.rebalance_seconds


@pytest.mark.parametrize(("queues", "pools"), [(10, 3), (2000, 1001), (10, 20)])
def test_numbers_that_cannot_be_simulated_are_refused(queues: int, pools: int) -> None:
    with pytest.raises(ValueError, match=r"^(queues|pools): "):
        Simulation(SimulationSettings(queues, pools, 0, 1))


def test_command_prints_tables_and_draws_them(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "scale.png"
    command = ("--seed", "7", "--queues", "400", "--pools", "10", "--plot", str(picture))
    output = BenchmarkProcess("simulation", folder).output(*command)
    assert rows(output, "ratio")[0][0] == "pools are drained"
    assert len(rows(output, "max", "a pool that fails")) == 4
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments", [["--pools", "3"], ["--pools", "1001"], ["--queues", "900"], ["--queues", "x"]]
)
def test_arguments_out_of_bounds_are_refused(arguments: list[str], folder: Path) -> None:
    BenchmarkProcess("simulation", folder).expect_usage_error(*arguments)
