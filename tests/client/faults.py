# SPDX-License-Identifier: Apache-2.0
"""What fails in turn while jobs run: workers, the service and Redis are killed and paused."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence

from tests.support import processes, servers

#: Seconds of a pause: longer than the leases of all workers.
_PAUSE = 6.0


def in_turn(
    service: servers.RunningService,
    redis: servers.RedisServer,
    workers: Sequence[processes.LoggedProcess],
) -> Iterator[Callable[[Callable[[float], object]], None]]:
    """Yields what fails in turn; each is given how to wait."""

    def kill_service(_: Callable[[float], object]) -> None:
        for pid in service.workers():
            os.kill(pid, signal.SIGKILL)

    def pause_service(wait: Callable[[float], object]) -> None:
        paused = service.workers()
        for pid in paused:
            os.kill(pid, signal.SIGSTOP)
        wait(_PAUSE)
        for pid in paused:
            os.kill(pid, signal.SIGCONT)

    def kill_redis(_: Callable[[float], object]) -> None:
        redis.kill()
        redis.start()

    def pause(server: servers.RestartableServer) -> Callable[[Callable[[float], object]], None]:
        def paused(wait: Callable[[float], object]) -> None:
            server.pause()
            wait(_PAUSE)
            server.resume()

        return paused

    for worker in workers:
        yield lambda _, worker=worker: worker.restart()  # type: ignore[misc]  # mypy: lambda defaults
        yield kill_service
        yield kill_redis
        yield pause(worker)
        yield pause_service
        yield pause(redis)
