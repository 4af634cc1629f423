# SPDX-License-Identifier: Apache-2.0
"""The contract of a bus: messages between the nodes of a service, by channel.

A bus knows nothing of what it carries: channels and payloads are bytes.  Delivery is at most
once.  Messages of one sender on one channel arrive in the order in which they were published;
there is no order among senders.  On a bus of several brokers, those of the nodes themselves may
arrive in another order while one of the brokers is slow or away.  A node receives its own
messages as all others do, by the function that it has registered, and in no other way: so each
node delivers each message once.

Each bus has bounds for what waits in it.  What does not fit is dropped, counted
(`definitions.BUS_DROPPED`) and, by the node that misses it, reported as a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from zaqar_redis import rules

#: Takes a channel and a payload; returns to how many connections it was delivered.
Deliver = Callable[[bytes, bytes], int]
#: Takes the channel of messages that were dropped where they were published.
OnDropped = Callable[[bytes], None]


def ignore_dropped(channel: bytes) -> None:
    """For those who do not repeat what was dropped."""


class BusSettings(msgspec.Struct, frozen=True, rename=lambda field: f"bus_{field}"):
    #: the memory that a slow broker may cost a worker
    backlog_bytes: Annotated[
        int,
        Meta(ge=1024 * 1024),
        "Maximum number of bytes that wait to be sent to the bus; further messages are dropped.",
    ] = 64 * 1024 * 1024
    connect_timeout: Annotated[
        float, Meta(ge=0.1), "Seconds that connecting to the bus may take."
    ] = 2.0
    curve_server_key: Annotated[
        str,
        "Public CURVE key of the brokers of a ZeroMQ bus, in Z85; empty: without encryption.",
    ] = ""
    curve_public_key: Annotated[
        str, "Public CURVE key of this service, in Z85; empty: a new pair for each worker."
    ] = ""
    curve_secret_key: Annotated[
        str | None, rules.SECRET, "Secret CURVE key that belongs to bus_curve_public_key, in Z85."
    ] = None


class Bus(Protocol):
    #: what logs, metrics and errors call it: the URI without its password
    name: str

    @property
    def live(self) -> bool:
        """Whether messages pass at the moment, as far as this node knows."""

    async def start(
        self,
        deliver: Deliver,
        on_gap: Callable[[], None],
        channels: Sequence[bytes],
        on_dropped: OnDropped = ignore_dropped,
    ) -> None:
        """Connects, and receives what is sent on *channels*, at least one, from then on.

        Returns when nothing that is sent from now on is missed; if the broker does not answer in
        time, too, and connects in the background.  Idempotent: a second call does nothing.

        *deliver* is called for each message on a channel that is subscribed to; what it raises is
        logged.  *on_gap* is called when messages may have been missed: after a lost connection,
        which is closed whole before another is opened, and where the bus sees that some are
        missing.  *on_dropped* is called when messages that this node has published were dropped.
        """

    async def stop(self) -> None:
        """Sends what waits, for a moment, and closes the connection.  Idempotent."""

    async def subscribe(self, channel: bytes) -> None:
        """Returns when nothing that is sent on the channel from now on is missed.  Idempotent.

        Raises BusUnavailable when the broker does not confirm it in time; the channel stays
        subscribed all the same, as soon as there is a connection.  Subscribing and
        unsubscribing take effect in the order of the calls, also while earlier ones are awaited.
        """

    async def unsubscribe(self, channel: bytes) -> None:
        """Idempotent."""

    def publish(self, channel: bytes, payload: bytes) -> int | None:
        """Sends a message soon, together with others, and never raises.

        Returns what the delivery functions returned, added up, when the bus delivers within this
        process; None when it goes to other processes.  A message that cannot be sent is dropped
        and counted.
        """

    async def send(self, channel: bytes, payload: bytes) -> int | None:
        """Sends a message after all that were published before; waits until the bus has it.

        Returns how many nodes receive it, where the bus knows that; else None.  Raises
        BusUnavailable, Overloaded, and ContentTooLarge where the broker has a limit.
        """


class BusFactory(Protocol):
    """The object of an entry point in the group ``zaqar_redis.bus``; its name is a URI's scheme."""

    def __call__(self, uri: str, settings: BusSettings) -> Bus:
        """Returns a bus that has not been started.  Raises BadConfiguration."""
