# SPDX-License-Identifier: Apache-2.0
"""Which addresses webhooks may reach: public ones, and those that the operator allows.

The check is where a socket is made for one address, so the address that was checked is the one that
is connected to, whatever the name resolves to before or after, and after each redirect as well.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from zaqar_redis import errors

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: Of IANA's special-purpose registries; and single public addresses that answer instances of a
#: cloud.
_FORBIDDEN: Sequence[Network] = [
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network; 0.0.0.0 is this machine
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's metadata
        "169.254.0.0/16",  # link-local, with most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # IETF protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        # All but 2000::/3, the global unicast addresses: loopback, IPv4-compatible, link-local,
        # unique local, multicast, local-use NAT64, reserved.
        "::/3",
        "4000::/2",
        "8000::/1",
        "2001::/23",  # IETF protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
]
#: RFC 6052: how a network with IPv6 only reaches IPv4.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: Names that are resolved at a time: a slow one occupies a thread for up to half a minute.
_THREADS = 32


class AddressNotAllowed(OSError):
    """Webhooks may not reach the address.  Its text is the same for all addresses."""

    def __init__(self) -> None:
        super().__init__("the address is not allowed")


class AddressGuard:
    def __init__(self, allowed: Sequence[str]) -> None:
        """*allowed*: networks that the operator allows.  Raises BadConfiguration."""
        try:
            self._allowed = [ipaddress.ip_network(each) for each in allowed]
        except ValueError as error:
            raise errors.BadConfiguration(
                f"[notification] allowed_networks: {error}; a network is like 10.2.0.0/16"
            ) from error

    def allows(self, address: Address) -> bool:
        if (embedded := _embedded(address)) is not None:
            return self.allows(embedded)
        if any(address in network for network in self._allowed):
            return True
        return not any(address in network for network in _FORBIDDEN)

    def open_socket(self, info: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
        """Returns a socket for this address, of those of a name.  Raises AddressNotAllowed.

        It is what aiohttp calls before it connects to an address.
        """
        family, kind, protocol, _, address = info
        if not self.allows(ipaddress.ip_address(address[0])):
            raise AddressNotAllowed
        return socket.socket(family, kind, protocol)


def ipv4_literal(host: str) -> IPv4Address | None:
    """Returns the address that a host is written as, in any spelling; None: it is no such one."""
    try:  # decimal, octal, hexadecimal, or shorter than four numbers
        return IPv4Address(socket.inet_aton(host.removesuffix(".")))
    except (OSError, ValueError):
        return None


def _embedded(address: Address) -> IPv4Address | None:
    """Returns the IPv4 address that is reached by an IPv6 address."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(address.packed[-4:])
    return address.ipv4_mapped


class SystemResolver(AbstractResolver):
    """Resolves names as the system does, in threads of its own.

    The event loop's own threads are few, so names that are slow to resolve would delay others.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "webhook-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._threads, socket.getaddrinfo, host, port, family, socket.SOCK_STREAM
            )
        except UnicodeError as error:  # what the codec for names raises, e.g. for a long label
            raise OSError(f"{host} is not a name") from error
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=of,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for of, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
