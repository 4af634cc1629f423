# SPDX-License-Identifier: Apache-2.0
"""The values that travel between rooms: frozen, typed, without IO.

Times are milliseconds since the epoch, lifetimes whole seconds, unless a
field says otherwise.  Bodies are the JSON text as it was posted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

Item = TypeVar("Item")


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of all records: immutable; change by ``msgspec.structs.replace``."""


class Queue(Record, frozen=True):
    name: str
    #: what the owner put in, reserved attributes included
    metadata: dict[str, Any]
    #: the metadata as stored, to recognise a change made meanwhile
    stored: bytes = b"{}"
    created: int = 0


class Draft(Record, frozen=True):
    """A message that has not been posted yet."""

    body: bytes
    #: seconds; None: the queue's default, else the service's
    ttl: int | None = None
    #: seconds; None: the queue's default
    delay: int | None = None
    #: 16 bytes; empty: none was asked for
    checksum: bytes = b""
    #: where a dead letter came from: the queue's name
    origin: str = ""
    #: the body is encrypted
    sealed: bool = False


class Message(Record, frozen=True):
    id: str
    rank: int
    #: seconds since it was posted
    age: int
    ttl: int
    body: bytes
    created: int
    expires: int
    #: the live claim that holds it
    claim_id: str | None = None
    #: how often it has been claimed
    claim_count: int = 0
    delay: int = 0
    #: 16 bytes that stand for the client that posted it
    client: bytes = b""
    checksum: bytes = b""
    origin: str = ""
    sealed: bool = False


class Arrived(Record, frozen=True):
    """Messages that were posted, in order, to a queue of this epoch."""

    epoch: str
    messages: Sequence[Message]


class Past(Record, frozen=True):
    """Messages of a queue, its epoch, and the last rank that it gave.

    Of a queue that is not there: the epoch that it will have, if it comes within a day, or
    nothing, and rank 0.
    """

    epoch: str
    rank: int = 0
    messages: Sequence[Message] = ()


class Posted(Record, frozen=True):
    """The ids of posted messages, in the order of the request."""

    ids: tuple[str, ...]
    #: the answer was given before, to the same idempotency key
    replayed: bool = False
    #: of the queue, and the rank of the first message; of stores that have these
    epoch: str = ""
    rank: int = 0


class Claim(Record, frozen=True):
    id: str
    ttl: int
    #: seconds since it was made or last renewed
    age: int
    messages: tuple[Message, ...]


class Taken(Record, frozen=True):
    """What a claim or a pop got."""

    messages: tuple[Message, ...]
    #: None when nothing was claimable
    claim_id: str | None = None
    #: milliseconds until a delay ends or a claim lapses; None: none is running
    due: int | None = None


class Page(Record, Generic[Item], frozen=True):
    items: Sequence[Item]
    #: give it back to go on behind this page; empty when nothing was found
    marker: str = ""
    #: milliseconds until something hidden may show; None: nothing is hidden
    due: int | None = None


class Stats(Record, frozen=True):
    total: int = 0
    claimed: int = 0
    oldest: Message | None = None
    newest: Message | None = None
    #: how many idempotency keys are remembered
    idempotency_records: int = 0

    @property
    def free(self) -> int:
        return self.total - self.claimed


class Top(Record, frozen=True):
    """Where a queue begins and ends: what a reader of ranges plans by."""

    #: tells this life of the queue from any other
    epoch: str
    #: the lowest rank there is; *following* when there is none
    first: int
    #: the rank that the next message will get
    following: int
    #: messages, expired ones that were not tidied away yet included
    count: int
    #: mean bytes of a stored message, by a sample; 0 when there is none
    size: int


class Held(Record, frozen=True):
    """What a live claim holds, as it is stored; the three sequences go in step."""

    #: when it was read
    now: int
    epoch: str
    #: the end of the claim
    until: int
    ranks: Sequence[bytes]
    envelopes: Sequence[bytes]
    #: claim id and how often the message was taken
    holds: Sequence[bytes]


class Subscription(Record, frozen=True):
    id: str
    #: the queue
    source: str
    #: URI that messages are sent to
    subscriber: str
    #: seconds from its creation, or from when it was last given one
    ttl: int
    #: seconds since then
    age: int
    options: dict[str, Any]
    confirmed: bool = False


class Topic(Record, frozen=True):
    name: str
    metadata: dict[str, Any]


class Retry(Record, frozen=True):
    """How a retried post is recognised."""

    #: chosen by the client, unique per queue within the window
    key: str
    #: of the request, so that the same key with other content is refused
    fingerprint: bytes
    #: milliseconds for which the first answer is kept at least, and twice that at most,
    #: in a queue whose metadata name no other window
    window: int


class Pool(Record, frozen=True):
    """A store that queues are spread over."""

    name: str
    uri: str
    #: how much of the new queues it gets, beside the others; 0: none
    weight: int
    #: the group it belongs to; empty: none
    flavor: str = ""
    #: settings of its driver that differ from the operator's for all
    options: dict[str, Any] = {}
    #: takes no new queues, and those it has move away
    draining: bool = False


class Pools(Record, frozen=True):
    """All pools at one moment."""

    #: changes whenever a pool or a flavor does
    version: int
    #: in order of name
    items: tuple[Pool, ...]


class Flavor(Record, frozen=True):
    name: str
    #: names of its pools
    pools: tuple[str, ...]
    #: what it can do, as stock Zaqar noted it; else ``{}``
    capabilities: Any = msgspec.field(default_factory=dict)


class Move(Record, frozen=True):
    """A queue on its way from one pool to another."""

    #: 32 hexadecimal digits, new for each attempt
    token: str
    source: str
    target: str
    #: the target is where the queue lives now; the source is yet to be cleared
    committed: bool = False


class Portion(Record, frozen=True):
    """Part of a queue on its way to another store; only drivers look inside."""

    kind: str
    #: what the two drivers have agreed upon
    items: Sequence[Any]
    #: the rank that it begins behind, for messages
    after: int = 0
    #: where the next portion begins; None: this is the last one
    following: str | None = None


class Job(Record, frozen=True):
    """Work on many queues that a service does in the background, and how it went."""

    #: False: its last round is over
    running: bool
    #: queues that could not move in the last round
    stayed: int = 0
    #: why, of the first few of them
    why: tuple[str, ...] = ()


class Finding(Record, frozen=True):
    """Something in a store that does not fit together."""

    what: str
    #: False: left behind by a process that died, and harmless
    damage: bool = True
    mended: bool = False


class Checked(Record, frozen=True):
    """A queue that was checked, or with neither project nor queue something else."""

    project: str = ""
    queue: str = ""
    #: the pool whose store it was found in
    store: str = ""
    #: its gate, see storage/transfer.py; empty: there is none
    gate: str = ""
    #: False: there is only something left of it
    there: bool = False
    messages: int = 0
    findings: tuple[Finding, ...] = ()

    def with_(self, *findings: Finding, **fields: Any) -> Checked:
        """The same with more findings."""
        return msgspec.structs.replace(self, findings=self.findings + findings, **fields)


class Share(Record, frozen=True):
    """Queues of a store: how many it has, and how many it should have by weight."""

    name: str
    queues: int
    due: int


class Located(Record, frozen=True):
    #: None: the catalogue does not know the queue
    pool: str | None
    move: Move | None = None
    #: it was, and its place is kept for a while
    deleted: bool = False
    #: the epoch that it is to have when it gets a pool; empty: nobody was told one
    promised: str = ""


class Placed(Record, frozen=True):
    """A queue, and the pool that it lives in."""

    project: str
    queue: str
    pool: str
    #: give it back to go on behind this one
    marker: str = ""
