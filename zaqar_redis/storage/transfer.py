# SPDX-License-Identifier: Apache-2.0
"""What a store promises whose queues can move to another store.

Errors and times are those of `zaqar_redis.storage.driver`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from zaqar_redis.records import Portion

#: What the tokens begin with of a queue that comes from a store of another kind.  No
#: catalogue tells when it is whole, so nobody opens its gate but `Transfer.welcome`.
IMPORT = "import-"


class Transfer(Protocol):
    """For stores whose queues can move to another store of the same kind.

    A *gate* keeps everybody but the mover out of a queue: whoever meets it gets
    `errors.Gated` and nothing is changed.  It is a text, ``<kind>:<token>``:

    - ``out``: the queue is being moved away from here; lapses unless it is renewed;
    - ``gone``: all of it is on the other side;
    - ``into``: it is being copied to here;
    - ``closed``: it is not here, for whoever remembers that it was.
    """

    def open(self, project: str, queue: str, gate: str) -> Awaitable[bool]:
        """Take the gate away if it is still this one."""

    def close(self, project: str, queue: str) -> Awaitable[bool]:
        """Shut a queue that is not there for some minutes; False when it is there."""

    def gate(self, project: str, queue: str) -> Awaitable[str]:
        """The gate; empty: there is none."""

    def promise(self, project: str, queue: str, epoch: str, seconds: int) -> Awaitable[None]:
        """The queue, if it is made here in so many *seconds*, has this epoch; empty: any."""

    def stage(self, project: str, queue: str, token: str) -> Awaitable[bool]:
        """Begin to take the queue in; False when it is here already."""

    def discard(self, project: str, queue: str, token: str) -> Awaitable[None]:
        """Give taking it in up, and clear what has come.

        The gate stays shut for some minutes, unless the queue came from another kind of store:
        it may have been here before, for whoever remembers that.
        """

    def live(self, project: str, queue: str, after: int) -> Awaitable[Portion]:
        """Messages behind a rank, while the queue is in use."""

    def freeze(self, project: str, queue: str, token: str) -> Awaitable[bool]:
        """Shut the gate for ten seconds; False when there is no such queue.

        Raises CannotMove when something is under way in it that cannot move along.
        """

    def frozen(
        self, project: str, queue: str, token: str, staged: int, at: str
    ) -> Awaitable[Portion]:
        """A portion of the frozen queue, from `Portion.following` on; first "".

        *staged* is the rank of the last message that `live` gave.  Raises Gated when
        the gate lapsed; otherwise it holds for ten more seconds.
        """

    def take_in(self, project: str, queue: str, token: str, portion: Portion) -> Awaitable[None]:
        """Keep a portion that a store of the same kind gave."""

    def seal(self, project: str, queue: str, token: str) -> Awaitable[bool]:
        """Shut the frozen queue for good; False when the gate lapsed."""

    def welcome(self, project: str, queue: str, token: str) -> Awaitable[None]:
        """Open the gate of a queue that was taken in whole.  Idempotent."""

    def retire(self, project: str, queue: str, token: str) -> Awaitable[None]:
        """Clear a sealed queue; for some minutes its gate stays shut.  Idempotent."""
