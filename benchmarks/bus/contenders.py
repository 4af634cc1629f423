# SPDX-License-Identifier: Apache-2.0
"""The buses, and clients of brokers, that are compared."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import cast

import msgspec

from benchmarks.bus.sessions import ClientModule
from zaqar_redis import errors


class BusContender(msgspec.Struct, frozen=True):
    name: str
    what: str
    #: of its client, in this package
    module: str
    #: a key of `brokers.BROKERS`
    broker: str
    #: modules that must be installed
    needs: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        return self.module == "nodes"

    def client(self) -> ClientModule:
        return cast(ClientModule, import_module(f"benchmarks.bus.{self.module}"))

    def missing(self) -> str | None:
        """Returns what is not installed that it needs."""
        for module in self.needs:
            if find_spec(module) is None:
                return f"the module {module}: install the extras nats and zeromq"
        if self.broker == "nats" and shutil.which("nats-server") is None:
            return "nats-server on PATH (Debian: apt-get install nats-server)"
        return None


CONTENDERS = {
    each.name: each
    for each in (
        BusContender("redis-py", "redis-py, a command for each message", "redis_py", "redis"),
        BusContender(
            "redis-py-buffered",
            "redis-py, a pipeline of 1000 messages or 200 ms",
            "redis_py_buffered",
            "redis",
        ),
        BusContender("redis", "our bus over Redis", "nodes", "redis"),
        BusContender(
            "zeromq-forwarder",
            "pyzmq, by PUSH to a forwarder in Python, which publishes by PUB",
            "zeromq_forwarder",
            "forwarder",
            ("zmq",),
        ),
        BusContender(
            "zeromq",
            "our bus over ZeroMQ, by zaqar-redis bus-broker",
            "nodes",
            "bus-broker",
            ("zmq",),
        ),
        BusContender("nats-py", "nats-py", "nats_py", "nats", ("nats",)),
        BusContender("nats", "our bus over NATS", "nodes", "nats", ("nats",)),
    )
}


def select_contenders(names: Sequence[str]) -> list[BusContender]:
    """Returns the contenders of these names; without names, all that are installed.

    Raises BadConfiguration for one that does not exist, or is not installed.
    """
    if not names:
        return [each for each in CONTENDERS.values() if each.missing() is None]
    for name in names:
        if name not in CONTENDERS:
            known = ", ".join(CONTENDERS)
            raise errors.BadConfiguration(f"there is no contender {name}; choose from: {known}")
        if missing := CONTENDERS[name].missing():
            raise errors.BadConfiguration(f"the contender {name} needs {missing}")
    return [CONTENDERS[name] for name in dict.fromkeys(names)]
