# SPDX-License-Identifier: Apache-2.0
"""The values that travel between packages: frozen, typed, without IO.

Times are milliseconds since the epoch, lifetimes whole seconds, unless a
field says otherwise.  Bodies are the JSON text as it was posted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

import msgspec

Item = TypeVar("Item")
#: of a message, by name; a span that posts it is `traceparent` (W3C Trace Context)
Attributes = Mapping[str, str | int | float | bytes]


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of all records: immutable; change by ``msgspec.structs.replace``."""


class Queue(Record, frozen=True):
    name: str
    #: as the owner set it, reserved attributes included
    metadata: dict[str, Any]
    #: the metadata as stored, to recognise a change made meanwhile
    stored: bytes = b"{}"
    created: int = 0
    #: the store that it is in, if that could not be read: then only its name is known
    unavailable: str = ""


class NewMessage(Record, frozen=True):
    """A message that has not been posted yet."""

    body: bytes
    #: seconds; None: the queue's default, else the service's
    ttl: int | None = None
    #: seconds; None: the queue's default
    delay: int | None = None
    #: when it can be claimed and its *ttl* begins, in the place of *delay*
    deliver_at: int | None = None
    #: 16 bytes; empty: no checksum was requested
    checksum: bytes = b""
    #: of a dead letter: the name of the queue that it came from
    origin: str = ""
    #: the body is encrypted
    encrypted: bool = False
    attributes: Attributes | None = None
    #: how often subscriptions have forwarded it from queue to queue, 15 at most
    hops: int = 0
    #: what identifies it; empty: its dedup id, if it has one; None: it is never a duplicate
    dedup: str | None = None


class Message(Record, frozen=True):
    id: str
    rank: int
    #: seconds since it was posted
    age: int
    ttl: int
    body: bytes
    created: int
    expires: int
    #: the live claim that holds the message
    claim_id: str | None = None
    #: how often the message has been claimed
    claim_count: int = 0
    delay: int = 0
    #: 16 bytes that stand for the client that posted it
    client: bytes = b""
    checksum: bytes = b""
    origin: str = ""
    encrypted: bool = False
    attributes: Attributes | None = None
    #: as in `NewMessage`
    hops: int = 0
    #: when it was claimed first, and why it was given back last, as the store has them
    past: bytes = b""

    @property
    def first_claimed(self) -> int:
        """0: it was not claimed, or the store does not know."""
        return int(self.past.partition(b" ")[0] or 0)

    @property
    def reason(self) -> str:
        return self.past.partition(b" ")[2].decode()

    @property
    def traceparent(self) -> str:
        """The span that posted it (W3C Trace Context); empty: nobody traced it."""
        return str((self.attributes or {}).get("traceparent", ""))

    def copied(self, origin: str = "", hops: int = 0) -> NewMessage:
        """Returns it as it is posted to another queue, without a delay."""
        return NewMessage(
            body=self.body,
            ttl=self.ttl,
            delay=0,
            checksum=self.checksum,
            origin=origin,
            encrypted=self.encrypted,
            attributes=self.attributes,
            hops=hops,
        )


class PostedBatch(Record, frozen=True):
    """Messages that were posted, in order, to a queue of this epoch."""

    epoch: str
    messages: Sequence[Message]


class PostResult(Record, frozen=True):
    """The ids of posted messages, in the order of the request."""

    ids: tuple[str, ...]
    #: this result was returned before, for the same idempotency key
    replayed: bool = False
    #: of the queue, and below the rank of the first message; from stores that have these
    epoch: str = ""
    rank: int = 0
    #: places in the request of those that had been posted before, whose ids these are
    duplicates: Sequence[int] = ()


class Lease(Record, frozen=True):
    """How long a claim lasts.  Seconds."""

    ttl: int
    #: messages outlive the claim by this at least
    grace: int
    #: the shortest *ttl* of a queue whose metadata has no `_min_claim_ttl`
    ttl_min: int = 0


class Claim(Record, frozen=True):
    id: str
    ttl: int
    #: seconds since the claim was created or last renewed
    age: int
    messages: tuple[Message, ...]


class ClaimSummary(Record, frozen=True):
    """A live claim, without its messages."""

    id: str
    ttl: int
    #: seconds since the claim was created or last renewed
    age: int
    #: how many it still holds
    messages: int
    #: the Client-ID of the request that created it; empty: it had none, or the store does not know
    client: str = ""


class PeekedMessage(Record, frozen=True):
    """A message as it is, and in which state."""

    message: Message
    state: Literal["free", "claimed", "delayed", "expired"]
    #: ms: when the claim or the delay ends
    until: int | None = None
    #: of the claim that holds it, as in `ClaimSummary`
    claim_client: str = ""


class PeekPage(Record, frozen=True):
    items: Sequence[PeekedMessage]
    #: id of the message looked at last; pass it as *after* to go on; empty at the end
    marker: str = ""


class ClaimResult(Record, frozen=True):
    """The messages that a claim or a pop got."""

    messages: tuple[Message, ...]
    #: None when nothing was claimable
    claim_id: str | None = None
    #: milliseconds until a delay ends or a claim expires; None: none is running
    next_visible_ms: int | None = None


class Page(Record, Generic[Item], frozen=True):
    items: Sequence[Item]
    #: pass it as *after* to read the next page; empty when nothing was found
    marker: str = ""
    #: milliseconds until a hidden message may become visible; None: none is hidden
    next_visible_ms: int | None = None


class PartialPage(Page[Queue], frozen=True):
    """Queues of a project, as far as its stores can be read."""

    #: stores that could not be read: of their queues there is what the catalogue knows
    unavailable: tuple[str, ...] = ()


class MessageCounters(Record, frozen=True):
    """What has happened to the messages of a queue since it was created."""

    posted: int = 0
    #: by claims; each time counts
    claimed: int = 0
    #: claimable again, since their claim was deleted or expired; each time counts
    released: int = 0
    #: by id or popped
    deleted: int = 0
    expired: int = 0
    purged: int = 0
    #: moved to the dead-letter queue
    dead_lettered: int = 0
    #: deleted to make room for newer ones
    dropped: int = 0
    #: not posted, as the queue was full or paused; each time counts
    refused: int = 0


class Stats(Record, frozen=True):
    total: int = 0
    claimed: int = 0
    oldest: Message | None = None
    newest: Message | None = None
    #: how many idempotency keys and dedup ids are stored
    idempotency_records: int = 0
    #: of those that are not claimed
    delayed: int = 0
    counters: MessageCounters = MessageCounters()

    @property
    def free(self) -> int:
        return self.total - self.claimed


class QueueSize(Record, frozen=True):
    """How many messages a queue has, and their stored bytes, by a sample of them."""

    messages: int = 0
    bytes: int = 0


class Quota(Record, frozen=True):
    """What a project may use at most.  -1: without limit; None: as the service's options say."""

    #: a second
    requests: int | None = None
    queues: int | None = None
    messages: int | None = None
    #: of stored messages
    bytes: int | None = None
    #: open connections of channels and of the WebSocket API
    sockets: int | None = None


class QuotaNews(Record, frozen=True):
    """What a worker learns when it reports to the others."""

    #: changes with every change of a quota
    version: int
    #: the other live workers' open sockets by project, one for each worker
    others: Sequence[dict[str, int]]
    #: quotas by project; None: those of the version that the worker knows
    quotas: dict[str, Quota] | None


class Watermarks(Record, frozen=True):
    """The first and the next rank of a queue, by which a reader of ranges plans."""

    #: tells this incarnation of the queue from any other
    epoch: str
    #: the lowest rank of a message; *next_rank* when there is none
    first: int
    #: the rank that the next message will get
    next_rank: int
    #: messages, including expired ones that were not swept yet
    count: int
    #: mean bytes of a stored message, by a sample; 0 when there is none
    size: int


class Subscription(Record, frozen=True):
    id: str
    #: the queue
    source: str
    #: URI that messages are sent to
    subscriber: str
    #: seconds from creation, or from the last change of the TTL
    ttl: int
    #: seconds since then
    age: int
    options: dict[str, Any]
    confirmed: bool = False
    #: nothing is delivered; it waits
    paused: bool = False


class SubscriptionChanges(Record, frozen=True):
    """What is changed of a subscription; None: it stays."""

    subscriber: str | None = None
    #: seconds from now
    ttl: int | None = None
    options: dict[str, Any] | None = None
    confirmed: bool | None = None
    paused: bool | None = None


class Forwarding(Record, frozen=True):
    """Where messages come from that a subscription forwards to another queue."""

    #: identifies queue, its epoch and subscription, to the queue that gets them
    writer: str
    #: of the messages there, in ascending order
    ranks: Sequence[int]


class MessageListing(Record, frozen=True):
    """Which messages of a queue are listed, and how."""

    #: at most
    limit: int
    #: behind the message of this id; None: from the end where reading begins
    after: str | None = None
    #: not those that this client has posted
    hide_client: str | None = None
    include_claimed: bool = False
    include_delayed: bool = False
    #: newest first, and those that are older than *after*
    reverse: bool = False
    #: the answer may be a moment old
    stale: bool = False


DAY_MS = 24 * 3600 * 1000


class IdempotencyKey(Record, frozen=True):
    """Identifies a post, so that a retry of it is recognised."""

    #: chosen by the client, unique per queue within the window
    key: str
    #: of the request, so that the same key with other content is refused
    fingerprint: bytes
    #: milliseconds for which the first answer is stored at least, and twice that at most,
    #: in a queue whose metadata set no other window
    window: int

    @classmethod
    def of_day(cls, key: str) -> IdempotencyKey:
        """Returns one that is recognised for a day, whatever the content."""
        return cls(key, b"", DAY_MS)


#: Prefix of the tokens of a queue that comes from another installation.  No catalogue tells
#: when it is complete, so only `Transfer.commit_import` releases its move lock.
IMPORT_PREFIX = "import-"


class LockKind(StrEnum):
    """What the move lock of a queue says about it in this store."""

    #: it is being moved out of this store; the lock expires unless it is renewed
    OUT = "out"
    #: all of it is in the other store
    GONE = "gone"
    #: it is being copied into this store
    INTO = "into"
    #: it is not in this store, for callers whose route is old
    CLOSED = "closed"


class MoveLock(Record, frozen=True):
    """Keeps everybody but the mover out of a queue, see `zaqar_redis.storage.transfer`."""

    kind: LockKind
    #: of the move
    token: str

    @classmethod
    def parse(cls, text: str) -> MoveLock | None:
        """Returns the lock from the form in which it is stored; None: *text* is empty."""
        kind, _, token = text.partition(":")
        return cls(LockKind(kind), token) if kind else None

    def __str__(self) -> str:
        return f"{self.kind}:{self.token}"

    @property
    def is_import(self) -> bool:
        """Whether the queue is imported from another installation."""
        return self.kind is LockKind.INTO and self.token.startswith(IMPORT_PREFIX)
