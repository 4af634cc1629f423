# SPDX-License-Identifier: Apache-2.0
"""What a Redis says of itself, for its diagnosis."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from zaqar_redis import errors
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.keyspace.client import BlockingClient, CommandRefused

#: Round trips that are timed: a tenth of a second of a slow network.
_PINGS = 11


class ServerFacts(Struct, frozen=True):
    """A Redis at a moment."""

    #: fields of INFO
    info: Mapping[str, str]
    #: settings, as CONFIG GET shows them; None: it may not be asked
    config: Mapping[str, str] | None
    #: milliseconds of a round trip, the median
    latency: float
    #: milliseconds by which its clock is ahead of this machine's
    clock_skew: float


def examine(uri: str, settings: BatchSettings) -> ServerFacts:
    """Asks the Redis at *uri*, which is that of a real one; changes nothing.

    Raises BadConfiguration, StoreUnavailable.
    """
    client = BlockingClient(uri, settings, connections=1)
    try:
        client.command("PING")  # connects
        times, skews = zip(*(_round_trip(client) for _ in range(_PINGS)), strict=True)
        return ServerFacts(
            info=_fields(client.command("INFO")),
            config=_config(client),
            latency=statistics.median(times),
            clock_skew=statistics.median(skews),
        )
    except CommandRefused as error:
        raise errors.BadConfiguration(
            f"{client.name}: the user of the URI may not run INFO or TIME: {error}"
        ) from error
    finally:
        client.close()


def _round_trip(client: BlockingClient) -> tuple[float, float]:
    """Returns the milliseconds that an answer took, and by which the clock is ahead."""
    began, began_at = time.monotonic(), time.time()
    seconds, micros = map(int, client.command("TIME"))
    took = time.monotonic() - began
    return took * 1000, (seconds + micros / 1e6 - began_at - took / 2) * 1000


def _fields(told: bytes) -> dict[str, str]:
    lines = told.decode(errors="replace").splitlines()
    pairs = (line.partition(":") for line in lines if not line.startswith("#"))
    return {name: value for name, colon, value in pairs if colon}


def _config(client: BlockingClient) -> dict[str, str] | None:
    try:
        flat: list[Any] = client.command("CONFIG", "GET", "*")
    except CommandRefused:  # as of most hosted ones
        return None
    texts = [part.decode(errors="replace") for part in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))
