# SPDX-License-Identifier: Apache-2.0
"""What operators may set of a client: its bounds, its times and its replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from zaqar_redis import errors


class BatchSettings(msgspec.Struct, frozen=True):
    #: more gain nothing, and delay replies
    batch_commands: Annotated[int, Meta(ge=1), "Maximum number of commands in one write."] = 512
    #: a few times what a socket buffer takes at once
    batch_bytes: Annotated[
        int, Meta(ge=1024), "Approximate maximum number of bytes in one write."
    ] = 1024 * 1024
    #: more are refused with Overloaded
    in_flight: Annotated[
        int,
        Meta(ge=1),
        "Maximum number of commands of one worker without a reply; beyond, requests get 503.",
    ] = 8192
    #: the memory that a slow store may cost a worker
    backlog_bytes: Annotated[
        int,
        Meta(ge=1024 * 1024),
        "Maximum number of bytes of commands that wait to be written; beyond, requests get 503.",
    ] = 64 * 1024 * 1024
    timeout: Annotated[float, Meta(ge=0.1), "Seconds that a command waits for its reply."] = 5.0
    connect_timeout: Annotated[float, Meta(ge=0.1), "Seconds that connecting may take."] = 2.0
    backoff: Annotated[float, Meta(ge=0.001), "Seconds before the first attempt to reconnect."] = (
        0.05
    )
    #: it doubles with each attempt, up to this
    backoff_max: Annotated[
        float, Meta(ge=0.001), "Maximum number of seconds between attempts to reconnect."
    ] = 2.0
    ack_replicas: Annotated[
        int,
        Meta(ge=0),
        "Replicas that must have a change before it is acknowledged (WAIT); otherwise, requests "
        "get 503. 0: none, and a failover may lose the last changes.",
    ] = 0
    ack_timeout: Annotated[
        float, Meta(ge=0.001), "Seconds that replicas may take for that; less than timeout."
    ] = 1.0
    read_replicas: Annotated[
        bool,
        "Ask replicas for listings and statistics, which may be a moment old then; behind "
        "Sentinel and on Cluster. Requests that wait for messages ask the primary.",
    ] = False
    #: what is left is for claims and leases of a full store, and for posts between two looks
    memory_share: Annotated[
        float,
        Meta(ge=0, le=1),
        "Share of Redis' maxmemory above which posts and all else that clients add get 507, while "
        "claims and deletions go on. 0: only what Redis itself refuses.",
    ] = 0.95

    @property
    def ack_timeout_ms(self) -> int:
        return max(1, round(self.ack_timeout * 1000))


def from_options(options: Mapping[str, Any]) -> BatchSettings:
    """Returns the settings from options by name; other options are ignored."""
    known = BatchSettings.__struct_fields__
    return BatchSettings(**{name: options[name] for name in options if name in known})


def unknown_options(options: Iterable[str]) -> Iterator[str]:
    """Yields those that `from_options` ignores."""
    return (name for name in options if name not in BatchSettings.__struct_fields__)


def check_options(options: Mapping[str, Any]) -> None:
    """Raises BadConfiguration when one of the `BatchSettings` is of another type, or too small.

    Others are ignored: operators have some for stock Zaqar's stores.
    """
    for name in BatchSettings.__struct_fields__:
        if name not in options:
            continue
        try:
            msgspec.convert({name: options[name]}, BatchSettings)
        except msgspec.ValidationError as error:
            raise errors.BadConfiguration(f'"{name}": {error}') from error
