# SPDX-License-Identifier: Apache-2.0
"""What a store of queues promises.

One small protocol per noun; a driver holds one of each.  Every method may raise
`errors.StoreUnavailable` or `errors.Overloaded`.  A method that raises changed
nothing, with one exception: after `errors.StoreTimeout`, or when the connection
broke, a change may have been made although no answer came.

Times go by the store's clock, in milliseconds.  Projects and queues are named by
the texts that the client gave; the store must keep them apart whatever
characters they hold.  The empty project is the one stock Zaqar calls None.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

from zaqar_redis.records import (
    Arrived,
    Checked,
    Claim,
    Draft,
    Message,
    Page,
    Past,
    Posted,
    Queue,
    Retry,
    Stats,
    Subscription,
    Taken,
    Topic,
)
from zaqar_redis.storage.transfer import Transfer


class Queues(Protocol):
    """Queues by name.  They exist from creation or the first post to deletion."""

    def create(self, project: str, queue: str, metadata: dict[str, Any]) -> Awaitable[bool]:
        """Make a queue; False, and nothing changed, when it is there."""

    def get(self, project: str, queue: str) -> Awaitable[Queue | None]:
        """The queue, or None."""

    def update(self, project: str, queue: Queue, metadata: dict[str, Any]) -> Awaitable[bool]:
        """Replace all metadata, if it still is what *queue* was read with.

        False when somebody else changed it, or the queue, meanwhile.
        """

    def delete(self, project: str, queue: str) -> Awaitable[None]:
        """Remove the queue, its messages and its claims.  Idempotent."""

    def list(
        self, project: str, after: str, limit: int, wanted: Callable[[Queue], bool] | None
    ) -> Awaitable[Page[Queue]]:
        """Up to *limit* queues in order of name, behind the name *after*."""

    def count(self, project: str) -> Awaitable[int]:
        """How many queues the project has."""

    def stats(self, project: str, queue: str) -> Awaitable[Stats]:
        """Counts, oldest and newest message; of a missing queue, zeros."""

    def purge(self, project: str, queue: str) -> Awaitable[None]:
        """Remove all messages and claims; the queue stays.  Idempotent."""


class Messages(Protocol):
    """Messages in the order in which they were posted."""

    def post(
        self,
        project: str,
        queue: str,
        drafts: Sequence[Draft],
        *,
        client: str,
        default_ttl: int,
        size: int,
        retry: Retry | None = None,
    ) -> Awaitable[Posted]:
        """Append all or none, in order, in one step; make the queue if needed.

        A reader that has seen a message never finds an older one appear before
        it.  *size* is the request's, in bytes, for the queue's own limit.  With
        *retry*, a post with the same key is done once within the window, which the
        queue's metadata may name, and answered the same.

        Raises BadRequest when the request is larger than the queue allows,
        KeyReused when the key came with another request, and `NeedsSealing` when
        the queue wants bodies encrypted and these are not.
        """

    def bury(
        self,
        project: str,
        queue: str,
        letter: Draft,
        *,
        client: bytes,
        retry: Retry,
    ) -> Awaitable[None]:
        """Append a dead letter as it is, encrypted or not, whatever its size, once.

        *letter* has a TTL; *client* is that of its message.
        """

    def list(
        self,
        project: str,
        queue: str,
        *,
        after: str | None,
        limit: int,
        hide_client: str | None,
        include_claimed: bool,
        include_delayed: bool,
    ) -> Awaitable[Page[Message]]:
        """Up to *limit* messages behind the id *after*, oldest first.

        A page is short only at the end of the queue.  The id need not be that of
        a message that still exists; one that this queue never gave yields an
        empty page.
        """

    def get(self, project: str, queue: str, ids: Sequence[str]) -> Awaitable[Sequence[Message]]:
        """Those of the messages that are there, in the order asked."""

    def delete(
        self,
        project: str,
        queue: str,
        ids: Sequence[str],
        *,
        claims: Sequence[str] | None,
        force: bool,
    ) -> Awaitable[None]:
        """Delete all or none.  Ids of nothing are passed over.

        With *claims*, each message must be held by one of them; without, none
        may be claimed, unless *force*.  Raises MessageClaimed, MessageNotClaimed,
        ClaimedByOther, ClaimLapsed.
        """

    def pop(self, project: str, queue: str, limit: int) -> Awaitable[Taken]:
        """Take the oldest claimable messages out for good."""


class Subscriptions(Protocol):
    """Who wants to be sent the messages of a queue.  The queue need not be there."""

    def create(
        self, project: str, queue: str, subscriber: str, *, ttl: int, options: dict[str, Any]
    ) -> Awaitable[str | None]:
        """Subscribe for *ttl* seconds; the id, or None when the subscriber has already."""

    def get(self, project: str, queue: str, id: str) -> Awaitable[Subscription | None]:
        """The subscription, or None."""

    def find(self, project: str, queue: str, subscriber: str) -> Awaitable[Subscription | None]:
        """The subscription of a subscriber, or None."""

    def list(
        self, project: str, queue: str, after: str, limit: int
    ) -> Awaitable[Page[Subscription]]:
        """Up to *limit* subscriptions in order of their ids, behind the id *after*."""

    def update(
        self,
        project: str,
        queue: str,
        id: str,
        *,
        subscriber: str | None = None,
        ttl: int | None = None,
        options: dict[str, Any] | None = None,
        confirmed: bool | None = None,
    ) -> Awaitable[bool]:
        """Change what is given; False when there is no such subscription.

        A new *ttl* counts from now.  Raises SubscriberTaken when the new subscriber
        has one already.
        """

    def delete(self, project: str, queue: str, id: str) -> Awaitable[None]:
        """Idempotent."""


class Topics(Protocol):
    """Topics by name: metadata, and nothing else yet."""

    def create(self, project: str, topic: str, metadata: dict[str, Any]) -> Awaitable[bool]:
        """Make a topic; False, and nothing changed, when it is there."""

    def get(self, project: str, topic: str) -> Awaitable[dict[str, Any] | None]:
        """Its metadata, or None."""

    def update(self, project: str, topic: str, metadata: dict[str, Any]) -> Awaitable[bool]:
        """Replace all metadata; False when there is no such topic."""

    def delete(self, project: str, topic: str) -> Awaitable[None]:
        """Idempotent."""

    def list(self, project: str, after: str, limit: int) -> Awaitable[Page[Topic]]:
        """Up to *limit* topics in order of name, behind the name *after*."""


class Bury(Protocol):
    """`Messages.bury`, perhaps of another store."""

    def __call__(
        self, project: str, queue: str, letter: Draft, *, client: bytes, retry: Retry
    ) -> Awaitable[None]: ...


class Claims(Protocol):
    """Leases on messages.  A message is held by at most one live claim."""

    def create(
        self, project: str, queue: str, *, ttl: int, grace: int, limit: int
    ) -> Awaitable[Taken]:
        """Claim the oldest claimable messages.

        A message that would expire before the claim lives on for *grace* seconds
        after it.  One that was claimed as often as the queue allows goes to the
        dead-letter queue instead.  When nothing is claimable no claim is made.
        """

    def get(self, project: str, queue: str, claim: str) -> Awaitable[Claim | None]:
        """The live claim with the messages that it still holds, or None."""

    def update(
        self, project: str, queue: str, claim: str, *, ttl: int, grace: int
    ) -> Awaitable[bool]:
        """Start the lease anew; False when there is no such live claim."""

    def delete(self, project: str, queue: str, claim: str) -> Awaitable[None]:
        """Release what the claim still holds.  Idempotent."""


#: Called with how many messages came or became claimable; 0: perhaps some.
Hint = Callable[[int], None]


class Feed(Protocol):
    """Hints that a queue has news.  Hints may be lost; the queue is the truth."""

    def watch(self, project: str, queue: str, hint: Hint) -> Awaitable[None]:
        """Call *hint* on news; returns when none from now on is missed."""

    def unwatch(self, project: str, queue: str, hint: Hint) -> None:
        """Stop calling *hint*."""


#: Called with messages when they are posted, in order; None: some may have been missed.
Watcher = Callable[[Arrived | None], None]


class Live(Protocol):
    """Messages of a queue while they are posted, and those that are there, by rank."""

    def watch(self, project: str, queue: str, watcher: Watcher) -> Awaitable[None]:
        """Call *watcher* on news; returns when none from now on goes by unnoticed.

        The queue need not be there.  Raises StoreUnavailable.
        """

    def unwatch(self, project: str, queue: str, watcher: Watcher) -> None:
        """Stop calling *watcher*."""

    def history(
        self,
        project: str,
        queue: str,
        *,
        first: int,
        last: int,
        limit: int,
        reverse: bool,
        promise: bool = True,
    ) -> Awaitable[Past]:
        """Up to *limit* messages, and about a megabyte, of the ranks from *first* to *last*.

        With *reverse* from the last one down.  Claimed and delayed messages are among
        them; ranks that are missing were deleted or have expired.  A queue that is not
        there has the epoch already that it is to have; without *promise* it has none.
        """


#: Called with a queue's name; what it returns does not matter.
Told = Callable[[str], object]


class Sweeping(Protocol):
    """For stores that do not tidy idle queues by themselves."""

    def sweep(self, turn: float, told: Told = ...) -> Awaitable[int]:
        """Tidy what is due, unless another process was at it less than *turn* seconds ago.

        0: look at every queue, due or not, whoever is at it.  *told* is called with the name
        of each queue that is done.

        How much was settled.
        """


class Checking(Protocol):
    """For stores whose content can be checked."""

    def check(self, repair: bool) -> AsyncIterator[Checked]:
        """Read everything, and mend what can be with *repair*.

        Yields each queue, also one that is not listed, with what is wrong with it, and
        what belongs to no queue.  The store may be in use meanwhile.
        """


class Ownership(Protocol):
    """For stores that say which installation they belong to: services over one control store."""

    def get(self) -> Awaitable[str | None]:
        """The id of the installation; None: of none yet."""

    def put(self, installation: str) -> Awaitable[None]:
        """Let it belong to this installation, whosever it was."""

    def drop(self) -> Awaitable[None]:
        """Let it belong to none."""

    def content(self) -> AsyncIterator[tuple[str, Sequence[str]]]:
        """Names of the queues that the store lists: project and some of its queues."""


class Driver(Protocol):
    """A store of queues."""

    @property
    def queues(self) -> Queues: ...

    @property
    def messages(self) -> Messages: ...

    @property
    def claims(self) -> Claims: ...

    @property
    def subscriptions(self) -> Subscriptions: ...

    @property
    def topics(self) -> Topics: ...

    @property
    def feed(self) -> Feed | None:
        """None: whoever waits must poll."""

    @property
    def live(self) -> Live | None:
        """None: nobody can follow its queues."""

    @property
    def sweeper(self) -> Sweeping | None:
        """None: nothing needs sweeping."""

    @property
    def checker(self) -> Checking | None:
        """None: its content cannot be checked."""

    @property
    def transfer(self) -> Transfer | None:
        """None: queues cannot move from or to it."""

    @property
    def ownership(self) -> Ownership | None:
        """None: it cannot say whose it is."""

    def route_letters(self, bury: Bury) -> None:
        """From now on send dead letters by *bury*: their queue may be in another store."""

    async def start(self) -> None:
        """Connect.  Does not fail when the store is away: its calls do."""

    async def close(self) -> None:
        """Let go of every connection."""

    async def ping(self) -> None:
        """Raises StoreUnavailable when the store does not answer."""

    async def identity(self) -> str:
        """What tells this store from any other at the moment, however its URI is spelt."""


class NeedsSealing(Exception):
    """The queue wants bodies encrypted."""
