# SPDX-License-Identifier: Apache-2.0
"""Rounds of all brokers in turn: CPU time of their servers, and rates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from benchmarks.brokers.broker import Broker, QueueClient
from benchmarks.support.figures import Figures
from benchmarks.support.processes import cpu_seconds_with_children
from benchmarks.support.request_load import CLIENTS, RequestSender, load_server
from benchmarks.support.rounds import in_turns, print_progress
from zaqar_redis.benchmarks.service import BenchmarkFailed

POST, POST_CLAIM_DELETE = PARTS = ("post", "post-claim-delete")
#: Seconds of the warm-up round.
_WARM_UP = 1
_CPU, _RATE, _SHARE = _UNITS = ("µs of CPU", "messages/s", "% of a core")


class BrokerRounds:
    """The rounds of one part with one broker."""

    def __init__(
        self, name: str, processes: Mapping[str, int], clients: Sequence[QueueClient], part: str
    ) -> None:
        self.name = name
        self._processes = processes
        self._clients = clients
        self._post_only = part == POST

    async def run(self, seconds: float) -> dict[tuple[str, str], float]:
        """Returns values by what was measured, and unit.

        Raises BenchmarkFailed when the broker refused a request.
        """
        before = self._used()
        sample = await load_server([self._sender(client) for client in self._clients], seconds)
        after = self._used()
        if sample.errors:
            raise BenchmarkFailed(f"{self.name} refused {sample.errors} requests")
        await asyncio.gather(*(client.purge() for client in self._clients))
        cpu = {
            f"{self.name}, {program}": (after[program] - before[program]) / sample.work * 1e6
            for program in before
        }
        shown = {self.name: sum(cpu.values())} | (cpu if len(cpu) > 1 else {})
        return {(what, _CPU): value for what, value in shown.items()} | {
            (self.name, _RATE): sample.rate,
            (f"{self.name}, clients", _SHARE): sample.generator * 100,
        }

    def _sender(self, client: QueueClient) -> RequestSender:
        async def post_claim_delete() -> bool:
            return await client.post() and await client.claim_delete()

        return client.post if self._post_only else post_claim_delete

    def _used(self) -> dict[str, float]:
        return {
            program: cpu_seconds_with_children(process)
            for program, process in self._processes.items()
        }


async def measure(
    found: Figures, part: str, brokers: Mapping[str, Broker], rounds: int, seconds: float
) -> None:
    """Measures one part: rounds of all brokers in turn, after a warm-up round of each."""
    async with contextlib.AsyncExitStack() as stack:
        contenders = []
        for name, broker in brokers.items():
            connecting = broker.connect(CLIENTS, claims=part == POST_CLAIM_DELETE)
            clients = await stack.enter_async_context(connecting)
            contenders.append(BrokerRounds(name, broker.processes, clients, part))
        warm_up = min(_WARM_UP, seconds)
        warm = [key for contender in contenders for key in await contender.run(warm_up)]
        figures = {
            (what, unit): found.figure(part, what, unit)
            for wanted in _UNITS
            for what, unit in warm
            if unit == wanted
        }
        for number, order in in_turns(contenders, rounds):
            for contender in order:
                values = await contender.run(seconds)
                for key, value in values.items():
                    figures[key].append(value)
                name = contender.name
                print_progress(
                    f"{part}: round {number} of {rounds}, {name}: {values[name, _RATE]:.0f} "
                    f"messages/s, {values[name, _CPU]:.1f} µs of CPU each"
                )
