# SPDX-License-Identifier: Apache-2.0
"""The contract of a store of queues.

One small protocol per resource; a driver holds one of each.  Every method may raise
`errors.StoreUnavailable` or `errors.Overloaded`.  A method that raises changed
nothing, with one exception: after `errors.StoreTimeout`, or when the connection
broke, a change may have been made although no answer arrived.

Times go by the store's clock, in milliseconds.  Projects and queues are named by
the texts that the client gave; the store must keep them apart whatever
characters they hold.  The empty project is the one stock Zaqar calls None.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

from zaqar_redis.check_records import CheckResult
from zaqar_redis.formats import StoreFormat
from zaqar_redis.records import (
    Claim,
    ClaimResult,
    Forwarding,
    IdempotencyKey,
    Lease,
    Message,
    MessageListing,
    NewMessage,
    Page,
    PostResult,
    Queue,
    QueueSize,
    Stats,
)
from zaqar_redis.storage.administration import Administration
from zaqar_redis.storage.deliveries import Deliveries, SubscriptionDeliveries
from zaqar_redis.storage.figures import StoreFigures
from zaqar_redis.storage.subscriptions import Subscriptions
from zaqar_redis.storage.transfer import Transfer
from zaqar_redis.storage.watched import Feed, Live


class Queues(Protocol):
    """Queues by name.  They exist from creation or the first post to deletion.

    A topic is a queue whose name has the prefix `rules.TOPIC_PREFIX`.  The setting `_history_size`
    in its metadata bounds how many messages it has: a post deletes the oldest beyond.
    """

    def create(self, project: str, queue: str, metadata: dict[str, Any]) -> Awaitable[bool]:
        """Creates a queue; returns False, and changes nothing, when it exists."""

    def get(self, project: str, queue: str) -> Awaitable[Queue | None]:
        """Returns the queue, or None."""

    def update(self, project: str, queue: Queue, metadata: dict[str, Any]) -> Awaitable[bool]:
        """Replaces all metadata, if it is still what *queue* was read with.

        Returns False when the metadata or the queue changed meanwhile.
        """

    def delete(self, project: str, queue: str) -> Awaitable[None]:
        """Deletes the queue, its messages and its claims.  Idempotent."""

    def list(
        self,
        project: str,
        after: str,
        limit: int,
        wanted: Callable[[Queue], bool] | None,
        *,
        topics: bool = False,
    ) -> Awaitable[Page[Queue]]:
        """Returns up to *limit* queues in order of name, behind the name *after*.

        Only those for which *wanted*, if given, returns True.  *topics*: only those that are
        topics (`rules.is_topic`), in the place of all others.
        """

    def count(self, project: str) -> Awaitable[int]:
        """Returns how many queues the project has, without topics."""

    def stats(self, project: str, queue: str) -> Awaitable[Stats]:
        """Returns counts, oldest and newest message; zeros when the queue does not exist."""

    def size(self, project: str, queue: str) -> Awaitable[QueueSize]:
        """Returns the size of a queue, expired messages that were not swept included.

        It changes nothing, and takes as long for large queues as for small ones.
        """

    def purge(self, project: str, queue: str) -> Awaitable[None]:
        """Deletes all messages and claims; the queue stays.  Idempotent."""


class Messages(Protocol):
    """Messages in the order in which they were posted."""

    def post(
        self,
        project: str,
        queue: str,
        drafts: Sequence[NewMessage],
        *,
        client: str,
        default_ttl: int,
        size: int,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Awaitable[PostResult]:
        """Appends all or none, in order, in one step; creates the queue if needed.

        A reader that has seen a message never sees an older one appear before it.
        *size* is the request's, in bytes, for the queue's own limit.  With an
        *idempotency_key*, posts with the same key within the window, which the queue's
        metadata may set, take effect once and return the same result.

        A draft that repeats the `dedup` of a message within the queue's window, or of another
        draft, is not posted; its id is that of the first one.  A store that does not deduplicate
        posts all of them.

        Raises BadRequest when the request is larger than the queue allows,
        IdempotencyKeyReused when the key was used for another request,
        `EncryptionRequired` when the queue wants bodies encrypted and these are not, and
        `DedupIdsRequired` when it identifies messages by their bodies.
        """

    def dead_letter(
        self,
        project: str,
        queue: str,
        message: NewMessage,
        *,
        client: bytes,
        idempotency_key: IdempotencyKey,
    ) -> Awaitable[None]:
        """Appends a dead letter as it is, encrypted or not, whatever its size, once.

        *message* has a TTL; *client* is that of the original message.
        """

    def forward(
        self, project: str, queue: str, forwarded: Sequence[NewMessage], *, by: Forwarding
    ) -> Awaitable[None]:
        """Appends messages of another queue, in order, but for those that it has appended.

        They have TTLs, and are as they were stored there.  Raises BadRequest when they are larger
        than the queue allows, and EncryptionRequired.
        """

    def list(self, project: str, queue: str, listing: MessageListing) -> Awaitable[Page[Message]]:
        """Returns messages, oldest first unless the listing says otherwise.

        A page is short only at the end of the queue.  The message of the id that it begins behind
        need not exist any more; for an id that is not of this queue the page is empty.
        """

    def get(self, project: str, queue: str, ids: Sequence[str]) -> Awaitable[Sequence[Message]]:
        """Returns those of the messages that exist, in the order of *ids*."""

    def delete(
        self,
        project: str,
        queue: str,
        ids: Sequence[str],
        *,
        claims: Sequence[str] | None,
        force: bool,
    ) -> Awaitable[None]:
        """Deletes all or none.  Ids without a message are ignored.

        With *claims*, each message must be held by one of them; without, none
        may be claimed, unless *force*.  Raises MessageClaimed, MessageNotClaimed,
        ClaimedByOther, ClaimExpired.
        """

    def pop(self, project: str, queue: str, limit: int) -> Awaitable[ClaimResult]:
        """Deletes and returns the oldest claimable messages."""


class PostDeadLetter(Protocol):
    """The signature of `Messages.dead_letter`, perhaps of another store."""

    def __call__(
        self,
        project: str,
        queue: str,
        message: NewMessage,
        *,
        client: bytes,
        idempotency_key: IdempotencyKey,
    ) -> Awaitable[None]: ...


class Claims(Protocol):
    """Leases on messages.  A message is held by at most one live claim.

    Where a lease begins, BadRequest is raised for one that is shorter than the `_min_claim_ttl` of
    the queue's metadata or, without that, than its `ttl_min`.
    """

    def create(
        self, project: str, queue: str, lease: Lease, *, limit: int, client: str = ""
    ) -> Awaitable[ClaimResult]:
        """Claims the oldest claimable messages.

        *client* is the Client-ID of the request, which `administration` shows as long as the
        claim lives; empty: it has none.

        A message that would expire before the claim is prolonged to the grace of the *lease*
        after it.  One that was claimed as often as the queue allows goes to the
        dead-letter queue instead.  When nothing is claimable no claim is created.
        """

    def get(self, project: str, queue: str, claim: str) -> Awaitable[Claim | None]:
        """Returns the live claim with the messages that it still holds, or None."""

    def update(
        self,
        project: str,
        queue: str,
        claim: str,
        lease: Lease,
        *,
        ids: Sequence[str] | None = None,
    ) -> Awaitable[Sequence[str] | None]:
        """Restarts the leases of all messages that the claim holds, or of these only.

        With *ids* the others keep theirs, and the claim lasts as long as the longest of them.
        Returns the ids of those that it holds, the others are ignored; None when there is no such
        live claim.
        """

    def release(
        self,
        project: str,
        queue: str,
        claim: str,
        *,
        ids: Sequence[str] | None = None,
        delay: int | None = None,
        reason: str = "",
    ) -> Awaitable[Sequence[str] | None]:
        """Releases all messages that the claim holds, or these only.

        *delay*: seconds until they can be claimed again; None: as the `_redelivery_delay` of the
        queue's metadata says, or at once.  Returns the ids of those that it held, the others are
        ignored; None when there is no such live claim.  A claim that holds nothing any more ends.
        *reason*: for which they are given back; Conflict while it cannot be stored.
        """

    def delete(self, project: str, queue: str, claim: str) -> Awaitable[None]:
        """Releases all that the claim holds.  Idempotent."""


#: Called with a queue's name, and how many more of its items are done.
ProgressCallback = Callable[[str, int], None]


def no_progress(queue: str, more: int) -> None:
    """The progress of what nobody watches."""


class Sweeper(Protocol):
    """Sweeps idle queues, for stores that do not clean them up by themselves."""

    def sweep(self, turn: float, on_progress: ProgressCallback = ...) -> Awaitable[int]:
        """Sweeps the queues that are due, unless another process did within *turn* seconds.

        *turn* is the length of a round; 0: sweeps every queue, due or not, whoever else
        does.  *on_progress* is called after each step; with 0 when a queue is finished.

        Returns how much was settled.
        """


class Checker(Protocol):
    """Checks a store, for stores whose content can be checked."""

    def check(
        self, repair: bool, on_progress: ProgressCallback = no_progress
    ) -> AsyncIterator[CheckResult]:
        """Reads everything, and with *repair* repairs what can be repaired.

        Yields each queue, also unlisted ones, with its findings, and findings that belong
        to no queue.  The store may be in use meanwhile.  *on_progress* is called with each page of
        a queue's entries.
        """


class FormatMark(Protocol):
    """The format of what is stored, as the store says."""

    def get(self) -> Awaitable[StoreFormat]:
        """Returns the format; of a store without a mark the first one."""

    def raise_to(self, version: int, needs: int) -> Awaitable[None]:
        """Raises the numbers of a `StoreFormat` that are lower.  It works in a full store, too."""


class Ownership(Protocol):
    """The installation (services over one control store) that a store says it belongs to."""

    @property
    def format(self) -> FormatMark: ...

    def get(self) -> Awaitable[str | None]:
        """Returns the id of the installation; None: the store belongs to none yet."""

    def put(self, installation: str) -> Awaitable[None]:
        """Assigns the store to this installation, whichever it belonged to."""

    def drop(self) -> Awaitable[None]:
        """Assigns the store to no installation."""

    def content(self) -> AsyncIterator[tuple[str, Sequence[str]]]:
        """Yields the queues that the store lists: project, and some of its queue names."""


class Store(Protocol):
    """What is needed of a store to find queues in it: its verbs are awaited, or run."""

    @property
    def queues(self) -> Queues: ...

    @property
    def messages(self) -> Messages: ...

    @property
    def transfer(self) -> Transfer | None:
        """None: queues cannot move from or to the store."""

    def route_dead_letters(self, dead_letter: PostDeadLetter) -> None:
        """Sends dead letters by *dead_letter* from now on: their queue may be in another store."""

    def start(self) -> Awaitable[None]:
        """Connects.  Does not fail when the store is unreachable: its calls do."""

    def close(self) -> Awaitable[None]:
        """Closes every connection."""

    def ping(self) -> Awaitable[None]:
        """Raises StoreUnavailable when the store does not answer."""


class Driver(Store, Protocol):
    """A store of queues, for a service: for a running event loop."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def ping(self) -> None: ...

    @property
    def claims(self) -> Claims: ...

    @property
    def administration(self) -> Administration | None:
        """None: operators cannot look at the store's messages and move them."""

    @property
    def subscriptions(self) -> Subscriptions | None:
        """None: the store has none."""

    @property
    def deliveries(self) -> Deliveries | None:
        """None: no messages are delivered to subscribers, or only those that it consists of do."""

    @property
    def subscription_deliveries(self) -> SubscriptionDeliveries | None:
        """None: no messages are delivered to subscribers."""

    @property
    def feed(self) -> Feed | None:
        """None: the store has no hints; callers that wait must poll."""

    @property
    def live(self) -> Live | None:
        """None: queues of this store cannot be watched."""

    @property
    def sweeper(self) -> Sweeper | None:
        """None: the store needs no sweeping."""

    @property
    def checker(self) -> Checker | None:
        """None: the content of the store cannot be checked."""

    @property
    def figures(self) -> StoreFigures | None:
        """None: operators cannot watch the store, or only those that it consists of."""

    @property
    def ownership(self) -> Ownership | None:
        """None: the store does not record its installation."""

    async def identity(self) -> str:
        """Returns what identifies the store at the moment, however its URI is spelt."""
