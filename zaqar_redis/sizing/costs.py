# SPDX-License-Identifier: Apache-2.0
"""What acts cost, and what is stored takes.

doc/scale.md has these figures too, with others, and says how they were measured; a test compares
the two.  Of CPU time it is the least of several rounds: other work on the machine only adds to it.
"""

from __future__ import annotations

from typing import NamedTuple


class ActCost(NamedTuple):
    """CPU time of one act, in µs."""

    worker: float
    redis: float


POST_1, POST_100 = ActCost(54, 25), ActCost(402, 598)
#: With the deletion.
CLAIM_1, CLAIM_10 = ActCost(112, 69), ActCost(178, 192)
#: Messages of the larger posts, and of the larger claims.
MANY_POSTED, MANY_CLAIMED = 100, 10
#: A long poll that waits, each second.
WAITING = ActCost(17, 8)
#: A publication that is kept; that a worker receives; and its delivery to a socket.
PUBLICATION, RECEIPT, DELIVERY = ActCost(41, 15), ActCost(70, 0), ActCost(10.4, 0)
PING = ActCost(47, 0)

#: Bytes of a message beside its body, and more while it is claimed.
MESSAGE, CLAIMED = 642, 119
#: Bytes of a queue with a message, beside this; and of its route, with pools.
QUEUE, ROUTE = 598, 211
#: Bytes of a worker without connections, of a long poll in it, and of a WebSocket with one
#: subscription.
WORKER, POLL, SOCKET = 71_200_000, 34_378, 19_060

#: Seconds between pings: the default of `[channels] ping_interval`.
PING_INTERVAL = 25
#: Bytes of a request and its answer besides messages, and of a message besides its body, with
#: the headers of a usual client.
HTTP_BYTES, ENVELOPE_BYTES = 350, 180
#: Connections of a worker to the Redis that has queues, control store and channels; to one that
#: is only a pool half as many.
REDIS_CONNECTIONS = 6
