# SPDX-License-Identifier: Apache-2.0
"""The service beside other message brokers: what a message costs their servers.

    python -m benchmarks.brokers
    python -m benchmarks.brokers --broker zaqar-redis --broker beanstalkd --rounds 9

starts servers of its own in temporary folders, loads them over loopback in turn, and stops
them, also after Ctrl-C. It prints Markdown. It needs the extra "bench" of this package, an
idle machine, and Debian's redis-server, beanstalkd, nats-server and rabbitmq-server.

32 clients of one process post a message each at a time, and await its confirmation; in the
second part each then claims a message and deletes it. doc/figures.md says what is compared.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import subprocess
from collections.abc import Callable, Mapping

import uvloop

from benchmarks.brokers import measuring
from benchmarks.brokers.beanstalkd import BeanstalkdBroker
from benchmarks.brokers.broker import Broker
from benchmarks.brokers.jetstream import JetStreamBroker
from benchmarks.brokers.rabbitmq import RabbitBroker
from benchmarks.brokers.service import ServiceBroker
from benchmarks.support.figures import Figures
from benchmarks.support.program import MeasurePart, PartsProgram

_PACKAGES = ("redis-server", "beanstalkd", "nats-server", "rabbitmq-server")
#: Starts each broker, for messages with this body.
_BROKERS: Mapping[str, Callable[[contextlib.ExitStack, bytes], Broker]] = {
    "zaqar-redis": ServiceBroker,
    "beanstalkd": BeanstalkdBroker,
    "nats-jetstream": JetStreamBroker,
    "rabbitmq-classic": functools.partial(RabbitBroker, queue_type="classic"),
    "rabbitmq-quorum": functools.partial(RabbitBroker, queue_type="quorum"),
}


def main() -> int:
    program = PartsProgram("brokers", __doc__, measuring.PARTS)
    program.add_seconds(5)
    # beanstalkd's limit, with its default options
    program.add_number("--bytes", 2, 65_535, 150, "of a message's body, which is JSON")
    program.add_choice("--broker", tuple(_BROKERS), "which to compare")
    figures = Figures()

    def prepare(
        given: argparse.Namespace, stack: contextlib.ExitStack
    ) -> Mapping[str, MeasurePart]:
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        payload = b'"%b"' % (b"x" * (given.bytes - 2))
        brokers = {
            name: start(stack, payload)
            for name, start in _BROKERS.items()
            if name in (given.broker or _BROKERS)
        }

        def measure(part: str) -> None:
            runner.run(measuring.measure(figures, part, brokers, given.rounds, given.seconds))

        return {part: functools.partial(measure, part) for part in measuring.PARTS}

    return program.run(prepare, figures, packages=_package_versions())


def _package_versions() -> str:
    """Returns the versions of the Debian packages that are installed."""
    command = ["dpkg-query", "--show", "--showformat", "${Package} ${Version}, ", *_PACKAGES]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.rstrip(", ")
    except FileNotFoundError:
        return "not Debian's"


if __name__ == "__main__":
    raise SystemExit(main())
