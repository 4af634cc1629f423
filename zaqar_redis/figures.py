# SPDX-License-Identifier: Apache-2.0
"""What operators see of an installation: figures of queues, channels and stores, and alarms.

Frozen values, without IO, as in `records`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from zaqar_redis.records import MessageCounters, Record

#: How urgent an alarm is: messages are lost or requests fail, now or when something restarts; they
#: may some day; worth knowing.  The most urgent first.
Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")

#: Bytes of Redis' memory that a message takes beside those that are stored, at least.
_MESSAGE_OVERHEAD = 500


class FailingSubscriptions(Record, frozen=True):
    """Subscriptions of a queue to which every attempt has failed for five minutes, and one of them.

    Times are milliseconds.
    """

    number: int
    id: str
    #: when the first of these attempts failed
    since: int
    #: of the last failure
    failed_at: int
    error: str


class QueueFigures(Record, frozen=True):
    """A queue at a moment; what has expired is not counted.  Times are milliseconds."""

    name: str
    #: when this was read, by the store's clock
    at: int
    #: tells this incarnation of the queue from any other
    epoch: str
    created: int = 0
    total: int = 0
    claimed: int = 0
    #: of those that are not claimed
    delayed: int = 0
    subscriptions: int = 0
    failing: FailingSubscriptions | None = None
    #: when the oldest message was created; 0: there is none
    oldest: int = 0
    #: bytes of a message, as it is stored, on average of a sample
    message_size: int = 0
    #: the claim that holds the oldest message; empty: none does
    holder: str = ""
    #: the Client-ID of the request that created that claim; empty: none is known
    holder_client: str = ""
    #: when that claim was created or last renewed
    held_since: int = 0
    #: what happens when messages expire, beside their deletion: see `metadata_rules.ON_EXPIRY`
    on_expiry: str = ""
    #: where dead letters go; empty: nowhere
    dead_letter_queue: str = ""
    counters: MessageCounters = MessageCounters()

    @property
    def free(self) -> int:
        """How many messages can be claimed now."""
        return max(0, self.total - self.claimed - self.delayed)

    @property
    def memory(self) -> int:
        """Bytes of memory that its messages take, about."""
        return self.total * (self.message_size + _MESSAGE_OVERHEAD)


class LargeQueue(Record, frozen=True):
    """A queue that takes much of the memory of its store."""

    project: str
    name: str
    messages: int
    #: `QueueFigures.memory`
    memory: int


class ChannelFigures(Record, frozen=True):
    """A channel that has subscribers, at a moment."""

    name: str
    subscribers: int
    #: publications a second; None: not known yet
    published: float | None = None

    def with_node(self, other: ChannelFigures) -> ChannelFigures:
        """Returns what two nodes together know of the channel."""
        rates = [each for each in (self.published, other.published) if each is not None]
        # Each of them receives every publication.
        published = max(rates, default=None)
        return ChannelFigures(self.name, self.subscribers + other.subscribers, published)


class HistoryPoint(Record, frozen=True, array_like=True):
    """A queue at a moment, as its history has it.  Times are seconds.

    The counters count since the queue was created.
    """

    #: since 1970, so that it always takes five bytes
    at: int
    free: int
    claimed: int
    delayed: int
    #: when the oldest message was created; 0: there is none
    oldest: int
    posted: int
    #: `MessageCounters.claimed`
    claims: int
    released: int
    deleted: int
    expired: int
    purged: int
    dead_lettered: int


class StoreSettings(Record, frozen=True):
    """Settings of a Redis."""

    #: whether snapshots are taken by themselves
    snapshots: bool
    #: when the append-only file is written to the disk
    appendfsync: str
    #: addresses that it listens on; none: all
    bind: tuple[str, ...]
    #: 0: none
    port: int
    tls_port: int
    #: without a password it answers this machine only
    protected: bool
    #: clients must log in
    password: bool


class StoreStatus(Record, frozen=True):
    """What a Redis says about itself.  Sizes in bytes; None: it does not say."""

    #: tells this process from any other
    run: str
    version: str
    #: seconds
    uptime: int
    #: by its clock, in milliseconds
    now: int | None
    memory_used: int
    #: 0: no limit
    memory_max: int
    memory_policy: str
    #: of the machine; 0: unknown
    memory_machine: int
    clients: int
    #: 0: unknown
    clients_max: int
    #: connections that were refused since it started
    clients_rejected: int
    #: a second
    commands: int
    #: "master" or "slave"
    role: str
    #: of a replica: whether it has its master
    has_master: bool
    #: it reads its data, and answers nothing else
    loading: bool
    #: connected replicas
    replicas: int
    #: of those, that lag behind
    replicas_lagging: int
    #: of a cluster: connected replicas of the primary that has the fewest; None: no cluster
    cluster_replicas: int | None
    #: that must have a change before this process acknowledges it
    ack_replicas: int
    aof: bool
    aof_works: bool
    aof_rewrite_works: bool
    rdb_works: bool
    #: seconds since 1970
    last_snapshot: int
    #: changes since the last snapshot
    not_in_snapshot: int
    #: keys that were evicted since it started
    evicted: int
    settings: StoreSettings | None


class Alarm(Struct, frozen=True):
    """Something that an operator should look at, in plain words."""

    severity: Severity
    #: what it is about: a store, a node, or a queue by name
    subject: str
    text: str
    #: what to do
    remedy: str
