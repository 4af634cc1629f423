# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis bus-broker``: the broker of a ZeroMQ bus."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from zaqar_redis import errors
from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import ShellCommand, arg, bounded_int, takes
from zaqar_redis.realtime.buses import zeromq_wire as wire

if TYPE_CHECKING:
    from zaqar_redis.realtime.buses.zeromq_broker import BrokerSettings, ForwardingBroker

LOG = logging.getLogger(__name__)

#: So bursts over as many channels pass.  A frame has 64 KiB at most, unless a single message is
#: larger: a node that has stopped costs 640 MiB at worst, until the broker gives it up.
_HIGH_WATER_MARK = 10_000


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError("it must be an IP address") from None


def _add_keys_to(_: object, parser: argparse._ActionsContainer) -> None:
    keys = parser.add_argument_group(
        "encryption", "Without it everybody who reaches the broker may send and receive."
    )
    keys.add_argument(
        "--curve-secret-key-file",
        type=Path,
        metavar="FILE",
        help="file with the secret CURVE key of the broker, in Z85: nodes encrypt with it",
    )
    keys.add_argument(
        "--curve-clients",
        type=Path,
        metavar="FILE",
        help="file with the public keys of allowed nodes, one a line (all nodes that know the "
        "broker's public key)",
    )
    keys.add_argument("--new-keys", action="store_true", help="print a new pair of keys, and end")
    keys.add_argument(
        "--insecure",
        action="store_true",
        help="allow addresses other than loopback without encryption",
    )


class RunBusBroker(ShellCommand):
    """Run a broker of a ZeroMQ bus.

    It passes messages between the nodes of a service, which have [channels] bus =
    zeromq://HOST:PORT. It stores nothing, and needs no store. Run any number of brokers; each
    channel is on one. Nodes also use the port after PORT. Example:

        zaqar-redis bus-broker --bind 10.0.0.5 --curve-secret-key-file /etc/zaqar-redis/broker.key
    """

    arguments = takes(
        arg(
            "--bind",
            type=_address,
            default="127.0.0.1",
            metavar="ADDRESS",
            help="IP address to listen on (127.0.0.1)",
        ),
        arg(
            "--port",
            type=bounded_int(1, wire.PORT_MAX),
            default=wire.PORT,
            metavar="PORT",
            help=f"port that nodes send to; they receive from the one after it ({wire.PORT})",
        ),
        arg(
            "--high-water-mark",
            type=bounded_int(1, 10_000_000),
            default=_HIGH_WATER_MARK,
            metavar="N",
            help="messages, of 64 KiB at most or a single larger one, that wait for each slow "
            "node; it misses further ones (%(default)s)",
        ),
        _add_keys_to,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        try:
            from zaqar_redis.realtime.buses import zeromq_broker, zeromq_keys
        except ImportError as error:
            raise CommandFailed(
                f'bus-broker needs the extra "zeromq" of this package ({errors.reason(error)})'
            ) from error
        if parsed_args.new_keys:
            public, secret = zeromq_keys.new_keys()
            print(f"public key: {public}\nsecret key: {secret}")
            return 0
        broker = zeromq_broker.ForwardingBroker(_settings(parsed_args))
        try:
            broker.bind()
        except errors.BadConfiguration:
            broker.abandon()
            raise
        asyncio.run(_forward(broker))
        return 0


def _settings(parsed: argparse.Namespace) -> BrokerSettings:
    """Raises BadConfiguration and CommandFailed."""
    from zaqar_redis.realtime.buses.zeromq_broker import BrokerSettings

    secret, clients = "", None
    if parsed.curve_secret_key_file is not None:
        keys = _read_keys("--curve-secret-key-file", parsed.curve_secret_key_file)
        if len(keys) != 1:
            raise CommandFailed(
                f"--curve-secret-key-file {parsed.curve_secret_key_file}: it must have one key, "
                f"and has {len(keys)}"
            )
        secret = keys[0]
    elif parsed.curve_clients is not None:
        raise CommandFailed("--curve-clients: without --curve-secret-key-file it has no effect")
    elif not (parsed.insecure or ipaddress.ip_address(parsed.bind).is_loopback):
        raise CommandFailed(
            f"--bind: {parsed.bind} is not an address of this machine alone, and everybody who "
            "reaches the broker could send and receive; say --curve-secret-key-file, bind to "
            "127.0.0.1, or say --insecure"
        )
    if parsed.curve_clients is not None:
        clients = frozenset(_read_keys("--curve-clients", parsed.curve_clients))
    return BrokerSettings(parsed.bind, parsed.port, parsed.high_water_mark, secret, clients)


def _read_keys(option: str, path: Path) -> list[str]:
    """Returns the keys of a file, one a line; ``#`` begins a line that is a comment."""
    from zaqar_redis.realtime.buses.zeromq_keys import check_curve_key

    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeError) as error:
        raise CommandFailed(f"{option} {path}: {errors.reason(error)}") from error
    # Keys may contain "#", and begin with it: a comment has a space after it, which they have not.
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("# ")]
    for number, key in enumerate(keys, 1):
        check_curve_key(f"{option} {path}, key {number}", key)
    return keys


async def _forward(broker: ForwardingBroker) -> None:
    """Runs a broker that listens until a signal comes."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    forwarding = asyncio.create_task(asyncio.to_thread(broker.forward))
    asked = asyncio.create_task(stopping.wait())
    LOG.info(
        "bus broker: nodes send to %s, and receive from %s",
        broker.endpoint(0),
        broker.endpoint(1),
        extra={"action": "start"},
    )
    await asyncio.wait((forwarding, asked), return_when=asyncio.FIRST_COMPLETED)
    if asked.done():
        LOG.info("bus broker: stops", extra={"action": "stop"})
    asked.cancel()
    broker.close()
    await forwarding
