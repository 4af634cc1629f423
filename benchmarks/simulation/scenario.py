# SPDX-License-Identifier: Apache-2.0
"""What happens to an installation: queues are created, pools fail, are drained, and are added."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import msgspec

from benchmarks.simulation.installation import SimulatedInstallation
from zaqar_redis.realtime.buses.sharded import shard
from zaqar_redis.sizing import costs
from zaqar_redis.storage.control import POOLS_MAX

#: Exponents of Zipf's law: the load of the k-th busiest queue is proportional to 1 / k**s.
EXPONENTS = (0.0, 0.5, 1.0)
#: The exponent by which messages are spread over queues.
_BACKLOG_EXPONENT = 1.0
#: The share of pools that fail, are drained, and are added: one in a hundred, at least one.
_SHARE = 100


class SimulationSettings(msgspec.Struct, frozen=True):
    queues: int
    #: after the last step; fewer before, `POOLS_MAX` at most
    pools: int
    #: that wait in all queues
    messages: int
    seed: int

    @property
    def changed_pools(self) -> int:
        """How many pools fail, are drained, and are added."""
        return max(1, self.pools // _SHARE)


class PoolImbalance(msgspec.Struct, frozen=True):
    """How evenly queues and load are spread over the pools that take queues."""

    step: str
    pools: int
    #: queues of the fullest pool, to those of the average one
    queues: float
    #: by exponent: load of the busiest pool, to that of the average one
    loads: Mapping[float, float]


class MovedShare(msgspec.Struct, frozen=True):
    step: str
    moved: float
    #: what has to move at least
    optimum: float


class PoolRecovery(msgspec.Struct, frozen=True):
    """What of a pool is unavailable when it fails, and for how long."""

    queues: int
    messages: float
    #: Redis is started again, and loads its file
    load_seconds: float
    #: its queues move to other pools
    drain_seconds: float


class SimulationResult(msgspec.Struct, frozen=True):
    settings: SimulationSettings
    spreads: Sequence[PoolImbalance]
    #: by exponent: the load of the busiest queue to that of the average pool
    busiest_queue: Mapping[float, float]
    moved: Sequence[MovedShare]
    #: of each pool, before any fails
    recoveries: Sequence[PoolRecovery]
    #: queues that were created while pools had failed, and how many of them got such a pool
    created_meanwhile: int
    created_in_failed: int
    #: queues of the pools that failed, as a share of all
    unavailable: float
    #: how long one mover takes to drain the pools, and to rebalance
    drain_seconds: float
    rebalance_seconds: float
    #: queues of each pool, and its load relative to the average, at the start
    queues_by_pool: Sequence[int]
    loads_by_pool: Mapping[float, Sequence[float]]


class Simulation:
    """An installation, and the steps that it goes through; the same for the same seed."""

    def __init__(self, settings: SimulationSettings) -> None:
        """Raises ValueError for numbers that cannot be simulated."""
        if not 4 <= settings.pools <= POOLS_MAX:
            raise ValueError(f"pools: it must be 4 to {POOLS_MAX}")
        if settings.queues < settings.pools:
            raise ValueError("queues: there must be one for each pool at least")
        self._settings = settings
        # Of the whole process: `choose_by_weight` uses it, too.
        random.seed(settings.seed)
        ranks = list(range(1, settings.queues + 1))
        random.shuffle(ranks)
        #: by exponent, the share of each queue
        self._loads = {exponent: _shares(ranks, exponent) for exponent in EXPONENTS}
        self.installation = SimulatedInstallation(
            settings.pools - settings.changed_pools, self._move_seconds
        )

    async def run(self, progress: Callable[[str], None]) -> SimulationResult:
        settings, installation = self._settings, self.installation
        for number in range(settings.queues):
            await installation.create_queue(_name(number))
            if number and number % 100_000 == 0:
                progress(f"{number} queues have a pool")
        spreads = [self._spread("queues are created")]
        queues_by_pool = self._counts()
        loads_by_pool = {exponent: self._relative_loads(exponent) for exponent in EXPONENTS}
        recoveries = [self._recovery(name) for name in installation.names()]
        failed = random.sample(installation.names(), settings.changed_pools)
        unavailable = (
            sum(len(installation.control.catalogue.names(name)) for name in failed)
            / settings.queues
        )
        created = await self._fail(failed)
        progress(f"{len(failed)} pools failed, {len(created)} queues were created meanwhile")
        in_failed = sum(installation.control.catalogue.pool_of[name] in failed for name in created)
        drained, drain_seconds = await self._drain(failed)
        spreads.append(self._spread("pools are drained"))
        progress(f"{len(failed)} pools are drained")
        installation.add_pools(2 * settings.changed_pools)
        grown, rebalance_seconds = await self._rebalance()
        spreads.append(self._spread("pools are added, queues rebalanced"))
        progress(f"{2 * settings.changed_pools} pools are added")
        return SimulationResult(
            settings,
            spreads,
            {s: max(loads) * len(queues_by_pool) for s, loads in self._loads.items()},
            [drained, grown, *_channels_moved(settings)],
            recoveries,
            len(created),
            in_failed,
            unavailable,
            drain_seconds,
            rebalance_seconds,
            queues_by_pool,
            loads_by_pool,
        )

    async def _fail(self, failed: Sequence[str]) -> Sequence[str]:
        """Creates queues while pools do not answer, and deletes none; returns their names."""
        stores = self.installation.stores
        for name in failed:
            stores[name].fails = True
        created = [
            f"late-{number}" for number in range(max(1, self._settings.queues // (10 * _SHARE)))
        ]
        for queue in created:
            await self.installation.create_queue(queue)
        for name in failed:
            stores[name].fails = False
        return created

    async def _drain(self, names: Sequence[str]) -> tuple[MovedShare, float]:
        before = self.installation.mover.seconds
        catalogue = self.installation.control.catalogue
        due = sum(len(catalogue.names(name)) for name in names)
        moved = len(await self.installation.drain(names))
        for name in names:
            self.installation.delete_pool(name)
        share = MovedShare("pools are drained", *(n / len(catalogue.pool_of) for n in (moved, due)))
        return share, self.installation.mover.seconds - before

    async def _rebalance(self) -> tuple[MovedShare, float]:
        before = self.installation.mover.seconds
        counts = self._counts()
        # All pools have the same weight: what they have above the even share has to move.
        even, rest = divmod(sum(counts), len(counts))
        fullest = sorted(counts, reverse=True)
        optimum = sum(max(0, count - even - (at < rest)) for at, count in enumerate(fullest))
        moved = len(await self.installation.rebalance())
        shares = (each / sum(counts) for each in (moved, optimum))
        share = MovedShare("pools are added, queues rebalanced", *shares)
        return share, self.installation.mover.seconds - before

    def _counts(self) -> list[int]:
        """Returns how many queues each pool has."""
        catalogue = self.installation.control.catalogue
        return [len(catalogue.names(name)) for name in self.installation.names()]

    def _spread(self, step: str) -> PoolImbalance:
        counts = self._counts()
        loads = {exponent: max(self._relative_loads(exponent)) for exponent in EXPONENTS}
        return PoolImbalance(step, len(counts), max(counts) / fmean(counts), loads)

    def _relative_loads(self, exponent: float) -> list[float]:
        """Returns the load of each pool, relative to that of the average one."""
        loads, catalogue = self._loads[exponent], self.installation.control.catalogue
        sums = [
            sum(loads[number] for queue in catalogue.names(name) if (number := _number(queue)) >= 0)
            for name in self.installation.names()
        ]
        average = fmean(sums)
        return [each / average for each in sums]

    def _messages(self, queue: str) -> float:
        number = _number(queue)
        share = self._loads[_BACKLOG_EXPONENT][number] if number >= 0 else 0.0
        return share * self._settings.messages

    def _move_seconds(self, queue: str) -> float:
        return costs.move_seconds(self._messages(queue))

    def _recovery(self, name: str) -> PoolRecovery:
        names = self.installation.control.catalogue.names(name)
        messages = sum(map(self._messages, names))
        load_seconds = messages / costs.LOADED.value
        return PoolRecovery(len(names), messages, load_seconds, sum(map(self._move_seconds, names)))


def _channels_moved(settings: SimulationSettings) -> list[MovedShare]:
    """Returns the share of channels that move when the number of shards changes."""
    pools = settings.pools
    channels = [_name(number).encode() for number in range(settings.queues)]
    before = [shard(each, pools) for each in channels]

    def moved(count: int, renumber: Callable[[int], int] = lambda index: index) -> float:
        after = (renumber(shard(each, count)) for each in channels)
        return sum(map(int.__ne__, before, after)) / len(channels)

    middle = pools // 2
    return [
        MovedShare("channels: a shard is added at the end", moved(pools + 1), 1 / (pools + 1)),
        MovedShare("channels: the last shard is removed", moved(pools - 1), 1 / pools),
        MovedShare(
            "channels: a shard in the middle is removed",
            moved(pools - 1, lambda index: index + (index >= middle)),
            1 / pools,
        ),
    ]


def channel_imbalance(settings: SimulationSettings) -> float:
    """Returns the channels of the fullest shard, to those of the average one."""
    counts = [0] * settings.pools
    for number in range(settings.queues):
        counts[shard(_name(number).encode(), settings.pools)] += 1
    return max(counts) / fmean(counts)


def _shares(ranks: Sequence[int], exponent: float) -> list[float]:
    weights = [rank**-exponent for rank in ranks]
    total = sum(weights)
    return [weight / total for weight in weights]


def _name(number: int) -> str:
    return f"queue-{number:07d}"


def _number(queue: str) -> int:
    """Returns the number of a queue; -1: it was created later, and has no load."""
    return int(queue[6:]) if queue.startswith("queue-") else -1
