# SPDX-License-Identifier: Apache-2.0
"""What acts cost, and what is stored takes: the one place of these figures.

doc/scale.md shows them, says how they were measured, and a test compares the two.  Of CPU time
it is the least of several rounds: other work on the machine only adds to it.
"""

from __future__ import annotations

import msgspec


class ActCost(msgspec.Struct, frozen=True):
    """CPU time of one act, in µs."""

    name: str
    worker: float
    redis: float
    #: what measured it
    command: str


class Footprint(msgspec.Struct, frozen=True):
    """A measured size or rate."""

    name: str
    value: float
    unit: str
    command: str


_COSTS = "benchmarks.costs"
_CHANNELS = "benchmarks.channels"

POST_1 = ActCost("post of 1", 54, 25, _COSTS)
POST_100 = ActCost("post of 100", 402, 598, _COSTS)
CLAIM_1 = ActCost("claim of 1, and deletion", 112, 69, _COSTS)
CLAIM_10 = ActCost("claim of 10, and deletion", 178, 192, _COSTS)
LIST_10 = ActCost("list of 10", 78, 35, _COSTS)
GET_1 = ActCost("get of 1", 43, 11, _COSTS)
LONG_POLL = ActCost("post of 1, and the long poll that it ends", 446, 134, _COSTS)
WAITING = ActCost("long poll that waits, each second", 17, 8, _COSTS)
PUBLICATION = ActCost("publication, kept", 41, 15, _COSTS)
RECEIPT = ActCost("publication that a worker receives", 70, 0, _CHANNELS)
DELIVERY = ActCost("delivery to a socket", 10.4, 0, _CHANNELS)
PING = ActCost("ping of a socket", 47, 0, _CHANNELS)

#: All acts, in the order of the document.
ACTS = (
    *(POST_1, POST_100, CLAIM_1, CLAIM_10, LIST_10, GET_1),
    *(LONG_POLL, WAITING, PUBLICATION, RECEIPT, DELIVERY, PING),
)

#: Messages of the larger posts, and of the larger claims.
MANY_POSTED, MANY_CLAIMED = 100, 10

MESSAGE = Footprint("a message, beside its body", 642, "bytes", _COSTS)
CLAIMED = Footprint("more while it is claimed", 119, "bytes", _COSTS)
QUEUE = Footprint("a queue with a message, beside this", 598, "bytes", _COSTS)
ROUTE = Footprint("the route of a queue, with pools", 211, "bytes", _COSTS)
LOADED = Footprint("messages that Redis loads when it starts", 276_000, "/s", _COSTS)
MOVED = Footprint("messages that move to another pool", 158_564, "/s", "benchmarks.pools")
MOVED_QUEUES = Footprint("queues of ten messages that move", 476, "/s", "benchmarks.pools")
POLL = Footprint("a long poll that waits, of the worker", 34_378, "bytes", _COSTS)
SOCKET = Footprint("a WebSocket with one subscription", 19_060, "bytes", _CHANNELS)
WORKER = Footprint("a worker without connections", 71_200_000, "bytes", _CHANNELS)

#: All footprints, in the order of the document.
FOOTPRINTS = (*(MESSAGE, CLAIMED, QUEUE, ROUTE, LOADED, MOVED, MOVED_QUEUES, POLL, SOCKET, WORKER),)

#: Seconds between pings: the default of `[channels] ping_interval`.
PING_INTERVAL = 25
#: Bytes of a request and its answer besides messages, and of a message besides its body, with
#: the headers of a usual client.
HTTP_BYTES, ENVELOPE_BYTES = 350, 180
#: Connections of a worker to the Redis that has queues, control store and channels; to one that
#: is only a pool half as many.
REDIS_CONNECTIONS = 6
