# SPDX-License-Identifier: Apache-2.0
"""A process of clients: ``python -m benchmarks.chaos.client_process SPEC``.

It runs until SIGTERM, and lets begun acts end then.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import uvloop

from benchmarks.chaos.history import ActRecorder

#: Seconds that acts may still take when the process is asked to end.
GRACE_SECONDS = 12.0


class ChaosClientSpec(msgspec.Struct, frozen=True):
    """What a process of clients does."""

    #: of `ROLES`
    role: str
    name: str
    port: int
    project: str
    #: the file of its acts
    file: str
    #: queues, or channels
    places: Sequence[str]
    seed: int
    #: acts a second of each client
    rate: float


class ClientContext:
    """What all clients of a process share."""

    def __init__(self, spec: ChaosClientSpec) -> None:
        self.spec = spec
        self._stopping = asyncio.Event()

    def recorder(self, name: str) -> ActRecorder:
        """Returns one for a client; its name, with the process', is unique in the run."""
        return ActRecorder(Path(self.spec.file), f"{self.spec.name}/{name}")

    @property
    def is_over(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        self._stopping.set()

    async def rest(self, seconds: float) -> None:
        """Sleeps, or until the process is asked to end."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return


#: Runs clients until the context is over.
RunClients = Callable[[ClientContext], Sequence[Awaitable[None]]]


async def _run(spec: ChaosClientSpec, clients: RunClients) -> None:
    context = ClientContext(spec)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, context.stop)
    work = [asyncio.ensure_future(each) for each in clients(context)]
    over = asyncio.ensure_future(context.rest(float("inf")))
    done, _ = await asyncio.wait([over, *work], return_when=asyncio.FIRST_COMPLETED)
    for each in done - {over}:
        each.result()  # a client never ends before: this raises its error
    _, late = await asyncio.wait(work, timeout=GRACE_SECONDS)
    for each in late:
        each.cancel()
    for found in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(found, Exception):
            raise found


def main() -> None:
    # Imported here: they need the context.
    from benchmarks.chaos import channel_clients, queue_clients

    roles: dict[str, RunClients] = {
        "queues": queue_clients.clients,
        "channels": channel_clients.clients,
    }
    spec = msgspec.json.decode(sys.argv[1], type=ChaosClientSpec)
    uvloop.run(_run(spec, roles[spec.role]))


if __name__ == "__main__":
    main()
