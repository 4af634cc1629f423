# SPDX-License-Identifier: Apache-2.0
"""What a message to one user costs four nodes: with few connections, and with many.

    python -m benchmarks.routing --connections 100 100000

Nodes are processes with a Redis for each number of connections, which take turns.  Connections
are sessions without sockets, a user each, spread over the nodes; the messages go to users taken at
random, and those to users who are nowhere count, too.  The cost is the CPU time of the four
nodes, for each message.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import redis

from benchmarks.support import deployment
from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import figures, print_progress
from zaqar_redis import clock
from zaqar_redis.auth.tokens import TokenSettings, TokenVerifier
from zaqar_redis.benchmarks import report
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol.codec import JSON
from zaqar_redis.realtime.protocol.codes import DisconnectCode
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces
from zaqar_redis.realtime.session.session import Session
from zaqar_redis.realtime.session.states import SessionEvent
from zaqar_redis.service import routing

_NODES = 4
#: Messages that are sent before the sender waits for the bus.
_BURST = 200
#: The user of each node that tells when a round has arrived, and where it does.
_LAST, _DONE = "last", "benchmark:done"


class _NoTransport:
    def send(self, reply: bytes) -> None:
        pass

    def close(self, close: DisconnectCode) -> None:
        pass


class _SignalTransport(_NoTransport):
    """Tells the benchmark that everything before has arrived."""

    def __init__(self, store: redis.Redis) -> None:
        self._store = store

    def send(self, reply: bytes) -> None:
        self._store.rpush(_DONE, 1)


class _Case(NamedTuple):
    connections: int
    uri: str
    nodes: list[subprocess.Popen[bytes]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--connections", type=int, nargs="+", default=[100, 100_000], help="%(default)s")
    add("--messages", type=int, default=20_000, help="of a round (%(default)s)")
    add("--rounds", type=int, default=5, help="%(default)s by default")
    add("--node", nargs=3, metavar=("URI", "NUMBER", "CONNECTIONS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.node:
        uri, number, connections = args.node
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_run_node(uri, int(number), int(connections)))
        return
    with contextlib.ExitStack() as stack:
        cases = [stack.enter_context(_case(each)) for each in args.connections]
        found: dict[int, list[float]] = {case.connections: [] for case in cases}
        for number in range(args.rounds):
            for case in cases:
                cost = asyncio.run(_round(case, args.messages))
                found[case.connections].append(cost)
                print_progress(f"round {number + 1}: {case.connections}: {cost:.1f} µs")
    rows = [[str(connections), *figures(times, 1)] for connections, times in found.items()]
    print(report.table(["connections", "µs of CPU a message", "least", "greatest"], rows))
    first, last = found[args.connections[0]], found[args.connections[-1]]
    ratio = statistics.median(last) / statistics.median(first)
    print(f"{args.connections[-1]} : {args.connections[0]} connections: {ratio:.2f}")


@contextlib.contextmanager
def _case(connections: int) -> Iterator[_Case]:
    with contextlib.ExitStack() as stack:
        store = deployment.redis_server(stack)
        nodes = []
        for number in range(_NODES):
            words = ["--node", store.uri, str(number), str(connections)]
            node = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.routing", *words], stdout=subprocess.PIPE
            )
            stack.callback(_stop, node)
            nodes.append(node)
        for node in nodes:
            assert node.stdout is not None
            if node.stdout.readline() != b"ready\n":
                raise RuntimeError("a node did not start")
        yield _Case(connections, store.uri, nodes)


def _stop(node: subprocess.Popen[bytes]) -> None:
    node.terminate()
    node.wait(10)
    if node.stdout is not None:
        node.stdout.close()


async def _round(case: _Case, messages: int) -> float:
    """Returns the microseconds of CPU time of all nodes, for each message."""
    chance = random.Random(messages)
    store = redis.from_url(case.uri)
    async with routing.connected(case.uri) as service:
        before = _cpu(case.nodes)
        for number in range(messages):
            service.send_to_user(f"user-{chance.randrange(case.connections)}", "t", {"n": number})
            if number % _BURST == 0:
                await service.unsubscribe("nobody")  # waits until the bus has all before
        service.send_to_user(_LAST, "t", None)
        await asyncio.to_thread(_wait, store)
        used = _cpu(case.nodes) - before
    store.close()
    return used / messages * 1e6


def _wait(store: redis.Redis) -> None:
    for _ in range(_NODES):
        if store.blpop([_DONE], timeout=120) is None:
            raise TimeoutError("messages did not arrive within two minutes")


def _cpu(nodes: Sequence[subprocess.Popen[bytes]]) -> float:
    return sum(cpu_seconds(node.pid) for node in nodes)


async def _run_node(uri: str, number: int, connections: int) -> None:
    engine = RedisEngine(keyspace.client(uri, BatchSettings()), clock.store)
    verifier = TokenVerifier(TokenSettings())
    node = Node(engine, SessionSettings(), Namespaces(ChannelOptions(), {}), verifier)
    await node.start()
    context = ProjectContext(node, "default")
    transport = _NoTransport()
    for user in range(number, connections, _NODES):
        await _connect(Session(context, JSON, transport), f"user-{user}")
    with redis.from_url(uri) as store:
        await _connect(Session(context, JSON, _SignalTransport(store)), _LAST)
        print("ready", flush=True)
        await asyncio.Event().wait()


async def _connect(session: Session, user: str) -> None:
    session.user = user
    await session.context.register(session)
    session.apply(SessionEvent.CONNECT)


if __name__ == "__main__":
    main()
