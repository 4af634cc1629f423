# SPDX-License-Identifier: Apache-2.0
"""The faults: each is begun, and ended some time later."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

from benchmarks.chaos.topologies import Topology
from tests.support.redis_node import RedisNode
from tests.support.servers import wait_for
from tests.support.tcp_proxy import ProxyThread, TcpProxy

#: Seconds that each chunk of bytes takes: all the same, or each its own.
_DELAY, _REORDER = (0.05, 0.05), (0.0, 0.15)


class StruckProcess(Protocol):
    """What a fault strikes."""

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def start(self) -> None: ...


class StruckWorker:
    """A worker of the service, which its parent replaces."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def pause(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def start(self) -> None:
        """Its parent has done so."""


class ChaosTargets(NamedTuple):
    """All that faults may strike."""

    topology: Topology
    proxies: ProxyThread
    #: returns the process of a target that is none of the store
    process: Callable[[str], StruckProcess]
    #: project and queue whose slot moves
    moving: tuple[str, str]

    def find(self, target: str) -> StruckProcess:
        """Returns the process that has the role of the target now."""
        return self.topology.node(target) or self.process(target)

    def server(self, target: str) -> RedisNode:
        node = self.topology.node(target)
        if node is None:
            raise LookupError(f"{target} is no server of the store")
        return node


class Fault(Protocol):
    """A fault of a target."""

    def __init__(self, targets: ChaosTargets, target: str) -> None: ...

    def begin(self) -> None: ...

    def end(self) -> None: ...


class KillFault:
    """SIGKILL; a server of a store starts again when it has been replaced."""

    def __init__(self, targets: ChaosTargets, target: str) -> None:
        self._topology = targets.topology
        self._process = targets.find(target)

    def begin(self) -> None:
        self._process.kill()

    def end(self) -> None:
        if isinstance(self._process, RedisNode):
            node = self._process
            wait_for(lambda: self._topology.replaced(node), "a replica to be promoted")
        self._process.start()


class PauseFault:
    """SIGSTOP, and SIGCONT."""

    def __init__(self, targets: ChaosTargets, target: str) -> None:
        self._process = targets.find(target)

    def begin(self) -> None:
        self._process.pause()

    def end(self) -> None:
        self._process.resume()


class NetworkFault:
    """Something that the proxy of a server does to all connections to it."""

    def __init__(self, how: Callable[[TcpProxy], None], targets: ChaosTargets, target: str) -> None:
        self._how = how
        self._change = partial(targets.proxies.change, targets.server(target).public_port)

    def begin(self) -> None:
        self._change(self._how)

    def end(self) -> None:
        self._change(TcpProxy.mend)


class DiskFault:
    """The files of a server cannot grow; one that ends because of that starts again."""

    def __init__(self, targets: ChaosTargets, target: str) -> None:
        self._server = targets.server(target)

    def begin(self) -> None:
        self._server.fill_disk()

    def end(self) -> None:
        if self._server.is_alive:
            self._server.empty_disk()
        else:
            self._server.start()


class FailoverFault:
    """A failover that an operator asks for, while all servers are well."""

    def __init__(self, targets: ChaosTargets, target: str) -> None:
        self._topology = targets.topology

    def begin(self) -> None:
        self._topology.fail_over()

    def end(self) -> None:
        """It has ended when it has begun."""


class SlotsFault:
    """The slot of a queue moves from primary to primary."""

    def __init__(self, targets: ChaosTargets, target: str) -> None:
        self._stop = threading.Event()
        self._move = partial(targets.topology.move_slots, *targets.moving, self._stop)
        self._thread = ThreadPoolExecutor(1)

    def begin(self) -> None:
        self._moves = self._thread.submit(self._move)

    def end(self) -> None:
        self._stop.set()
        self._thread.shutdown()
        self._moves.result()  # raises what a move has raised


class FaultKind(NamedTuple):
    what: str
    #: seconds, at least and at most
    lasts: tuple[float, float]
    create: Callable[[ChaosTargets, str], Fault]


def _network(how: Callable[[TcpProxy], None]) -> Callable[[ChaosTargets, str], Fault]:
    return partial(NetworkFault, how)


FAULTS: Mapping[str, FaultKind] = {
    "kill": FaultKind("SIGKILL, and started again", (0.5, 2.5), KillFault),
    "pause": FaultKind("SIGSTOP, and SIGCONT", (1.0, 5.0), PauseFault),
    "cut": FaultKind("connections are reset, and refused", (0.5, 4), _network(TcpProxy.cut)),
    "hold": FaultKind("connections open, nothing passes", (1, 5), _network(TcpProxy.hold)),
    "delay": FaultKind(
        "all bytes to and from it take 50 ms",
        (2, 5),
        _network(lambda proxy: proxy.slow_down(*_DELAY)),
    ),
    "reorder": FaultKind(
        "bytes of its connections pass each other, by up to 150 ms",
        (2, 5),
        _network(lambda proxy: proxy.slow_down(*_REORDER)),
    ),
    "disk": FaultKind("its disk is full", (1, 4), DiskFault),
    "failover": FaultKind("an operator's failover", (0.5, 1), FailoverFault),
    "slots": FaultKind("the slot of a queue moves again and again", (3, 6), SlotsFault),
}
