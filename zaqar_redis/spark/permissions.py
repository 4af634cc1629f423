# SPDX-License-Identifier: Apache-2.0
"""Tries the commands that tasks will use, without effect, before any task starts.

Otherwise Spark would retry a task that Redis refuses, and report a stack trace.
"""

from __future__ import annotations

from functools import partial

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import CommandRefused
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.spark.stores import StoreConnections, StoreLocation

#: A rank that no message has.
_NO_RANK = 0


def check_reading(stores: StoreConnections, location: StoreLocation, queue: str) -> None:
    """Raises BadConfiguration when the store refuses reads, StoreUnavailable."""
    known = keys.of_queue(stores.config.project, queue)
    _try(
        stores,
        location,
        ("TIME",),
        ("EXISTS", known.holds),
        ("GET", known.move_lock),
        ("HGET", known.queue, "epoch"),
        ("HMGET", known.bodies, _NO_RANK),
        ("ZCOUNT", known.messages, _NO_RANK, _NO_RANK),
        ("ZRANGE", known.messages, 0, 0),
        ("ZRANGEBYSCORE", known.messages, _NO_RANK, _NO_RANK),
        ("ZMSCORE", known.claimed, _NO_RANK),
    )


def check_writing(stores: StoreConnections, queue: str) -> None:
    """The same for writes to the store of a queue; "" stands for the default pool."""
    stores.with_retry(queue, partial(_check_writing, stores, queue))


def _check_writing(stores: StoreConnections, queue: str, location: StoreLocation) -> None:
    known = keys.of_queue(stores.config.project, queue)
    _try(stores, location, ("HDEL", known.bodies, _NO_RANK), ("ZREM", known.messages, _NO_RANK))


def _try(
    stores: StoreConnections, location: StoreLocation, *commands: tuple[bytes | str | int, ...]
) -> None:
    try:
        stores.client(location.uri).commands(*commands)
    except CommandRefused as error:
        raise errors.BadConfiguration(
            f'option "uri": {redact_password(location.uri)} refuses: {error}'
        ) from error
