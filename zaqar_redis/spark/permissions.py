# SPDX-License-Identifier: Apache-2.0
"""Commands that tasks will use, tried for nothing: who may not use them hears it first.

A task that is refused is tried again, and fails with a trace of its own.
"""

from __future__ import annotations

from functools import partial

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import Refused, printable
from zaqar_redis.spark.stores import Place, Stores

#: A rank that no message has.
_NONE = 0


def check_reading(stores: Stores, place: Place, queue: str) -> None:
    """Raises BadConfiguration when the store does not let us read, StoreUnavailable."""
    known = keys.of_queue(stores.where.project, queue)
    _try(
        stores,
        place,
        ("TIME",),
        ("EXISTS", known.holds),
        ("GET", known.gate),
        ("HGET", known.queue, "epoch"),
        ("HMGET", known.bodies, _NONE),
        ("ZCOUNT", known.messages, _NONE, _NONE),
        ("ZRANGE", known.messages, 0, 0),
        ("ZRANGEBYSCORE", known.messages, _NONE, _NONE),
        ("ZMSCORE", known.claimed, _NONE),
    )


def check_writing(stores: Stores, queue: str) -> None:
    """The same for the store that a queue is in, or would be; "" is no queue of any pool."""
    stores.patiently(queue, partial(_check_writing, stores, queue))


def _check_writing(stores: Stores, queue: str, place: Place) -> None:
    known = keys.of_queue(stores.where.project, queue)
    _try(stores, place, ("HDEL", known.bodies, _NONE), ("ZREM", known.messages, _NONE))


def _try(stores: Stores, place: Place, *commands: tuple[bytes | str | int, ...]) -> None:
    try:
        stores.client(place.uri).commands(*commands)
    except Refused as error:
        raise errors.BadConfiguration(
            f'option "uri": {printable(place.uri)} refuses: {error}'
        ) from error
