# SPDX-License-Identifier: Apache-2.0
"""The bus of URIs: their scheme names an entry point.

A package adds a bus by an entry point in the group ``zaqar_redis.bus`` whose name is the scheme
and whose object is a `bus.BusFactory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from stevedore import DriverManager, NamedExtensionManager
from stevedore.exception import NoMatches

from zaqar_redis import errors
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.realtime.bus import Bus, BusFactory, BusSettings
from zaqar_redis.realtime.buses.sharded import ShardedBus

GROUP = "zaqar_redis.bus"
#: Schemes that are spellings of one kind of bus.
_KINDS = {"rediss": "redis", "unix": "redis"}


def load_bus(uris: Sequence[str], settings: BusSettings) -> Bus:
    """Returns a bus over one URI, or one whose channels are spread over several.

    Raises BadConfiguration.
    """
    kinds = {_KINDS.get(scheme, scheme) for scheme in (uri.partition(":")[0] for uri in uris)}
    if len(kinds) > 1:
        raise errors.BadConfiguration(
            f"several URIs must be of one kind, not of {' and '.join(sorted(kinds))}"
        )
    buses = [_load(uri, settings) for uri in uris]
    return ShardedBus(buses) if len(buses) > 1 else buses[0]


def _load(uri: str, settings: BusSettings) -> Bus:
    try:
        scheme = urlsplit(uri).scheme
    except ValueError as error:  # e.g. a bracket that is never closed
        raise errors.BadConfiguration(f"{redact_password(uri)}: {error}") from error
    schemes = sorted(set(NamedExtensionManager(GROUP, []).entry_points_names()))
    if scheme not in schemes:
        raise errors.BadConfiguration(
            f'{redact_password(uri)}: no bus is installed for the scheme "{scheme}"; there are: '
            f"{', '.join(schemes)}"
        )
    try:
        factory: BusFactory = DriverManager(GROUP, scheme).driver
    except (ImportError, NoMatches) as error:
        raise errors.BadConfiguration(
            f"the bus {scheme}: cannot be imported: {errors.reason(error)}; zeromq and nats need "
            f"the extras of the same names"
        ) from error
    return factory(uri, settings)
