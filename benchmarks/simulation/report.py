# SPDX-License-Identifier: Apache-2.0
"""What a simulation found, as tables and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.simulation.scenario import PoolRecovery, SimulationResult
from zaqar_redis.benchmarks.report import table


def text(found: SimulationResult, channels: float) -> str:
    """Returns Markdown; *channels*: those of the fullest shard, to those of the average one."""
    settings = found.settings
    command = (
        f"python -m benchmarks.simulation --seed {settings.seed} --queues {settings.queues} "
        f"--pools {settings.pools} --messages {settings.messages}"
    )
    facts = (
        f"While {settings.changed_pools} pools did not answer, {found.unavailable:.2%} of the "
        f"queues were unavailable; {found.created_meanwhile} new ones were created, "
        f"{found.created_in_failed} of them in such a pool. One mover drains these pools in "
        f"{found.drain_seconds:.0f} s, and rebalances in {found.rebalance_seconds:.0f} s."
    )
    parts = (_spreads(found, channels), _moved(found), _recoveries(found.recoveries), facts)
    return "\n\n".join((*parts, f"Command: `{command}`"))


def _spreads(found: SimulationResult, channels: float) -> str:
    rows = [
        [
            spread.step,
            str(spread.pools),
            f"{spread.queues:.2f}",
            *(f"{load:.2f}" for load in spread.loads.values()),
        ]
        for spread in found.spreads
    ]
    blank = ["" for _ in found.busiest_queue]
    rows.append(["channels, by hash", str(found.settings.pools), f"{channels:.2f}", *blank])
    busiest = [f"{load:.2f}" for load in found.busiest_queue.values()]
    rows.append(["the busiest queue alone", "", "", *busiest])
    loads = [f"load, s = {exponent:g}" for exponent in found.busiest_queue]
    return table(["fullest pool : average pool", "pools", "queues", *loads], rows)


def _moved(found: SimulationResult) -> str:
    rows = [
        [each.step, f"{each.moved:.2%}", f"{each.optimum:.2%}", f"{each.moved / each.optimum:.2f}"]
        for each in found.moved
    ]
    return table(["share that moves", "moved", "optimum", "ratio"], rows)


def _recoveries(recoveries: Sequence[PoolRecovery]) -> str:
    of: dict[str, Callable[[PoolRecovery], float]] = {
        "queues": lambda pool: pool.queues,
        "messages": lambda pool: pool.messages,
        "Redis loads its file, s": lambda pool: pool.load_seconds,
        "its queues move away, s": lambda pool: pool.drain_seconds,
    }
    rows = []
    for what, value in of.items():
        values = list(map(value, recoveries))
        rows.append([what, *(f"{each:.1f}" for each in (median(values), min(values), max(values)))])
    return table(["a pool that fails", "median", "min", "max"], rows)


def plot(found: SimulationResult, file: Path) -> None:
    """Draws queues and loads of the pools, shares that move, and times until pools are back."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    [[queues, loads], [moved, recoveries]] = figure.subplots(2, 2)
    queues.hist(found.queues_by_pool, bins=40)
    queues.axvline(sum(found.queues_by_pool) / len(found.queues_by_pool), color="black")
    queues.set(title="Queues of a pool; the line: the average", xlabel="queues", ylabel="pools")
    for exponent, each in found.loads_by_pool.items():
        loads.plot(sorted(each, reverse=True), label=f"s = {exponent:g}")
    loads.set(
        title="Load of the pools, by Zipf's exponent",
        xlabel="pools, the busiest first",
        ylabel="load : average load",
        yscale="log",
    )
    loads.legend()
    _draw_moved(moved, found)
    for label, times in {
        "Redis loads its file": [each.load_seconds for each in found.recoveries],
        "its queues move away": [each.drain_seconds for each in found.recoveries],
    }.items():
        recoveries.plot(sorted(times, reverse=True), label=label)
    recoveries.set(
        title="Recovery of a pool that fails",
        xlabel="pools, the slowest first",
        ylabel="seconds",
        yscale="log",
    )
    recoveries.legend()
    figure.savefig(file)


def _draw_moved(axes: Axes, found: SimulationResult) -> None:
    places = range(len(found.moved))
    axes.barh([at - 0.2 for at in places], [100 * each.moved for each in found.moved], 0.4)
    axes.barh(
        [at + 0.2 for at in places],
        [100 * each.optimum for each in found.moved],
        0.4,
        color="lightgrey",
        label="optimum",
    )
    axes.set_yticks(list(places), [each.step.replace(": ", ":\n") for each in found.moved])
    axes.invert_yaxis()
    axes.set(title="Queues and channels that move", xlabel="% of all", xscale="log")
    axes.legend()
