# SPDX-License-Identifier: Apache-2.0
"""All keys: their names, types and hash tags.

All keys of a queue share the tag ``{<project>/<queue>}``, so one script may
touch them all, in a cluster too.  Project ids and queue names are
percent-encoded outside ``A-Z a-z 0-9 _ . - ~``, so a brace or a separator in them
cannot forge a tag.  No project, which stock Zaqar's storage layer allows, is the
empty text; a project named by a client is never empty.
"""

from __future__ import annotations

import functools
import hashlib
import re
from urllib.parse import quote, unquote

from zaqar_redis.keyspace import routing_keys, slot_indexes
from zaqar_redis.keyspace.control_keys import ControlKeys
from zaqar_redis.rules import is_topic

#: Queues, projects or channels whose keys are cached.  Those of a queue are some 2 KB, and half a
#: kilobyte more for each script that was called with them; both grow with the length of its name.
_CACHE_SIZE = 4096


class SentKeys:
    """Keys that are sent again and again, and so packed once for each script."""

    __slots__ = ("has_rules", "packed_heads", "slot")

    def __init__(self) -> None:
        #: whether a post has found that the queue has rules, for which it needs more keys
        self.has_rules = False
        #: of a Redis Cluster; None: not computed yet
        self.slot: int | None = None
        #: name of a script -> how a call of it begins, for `script.Call`
        self.packed_heads: dict[str, bytes] = {}


class QueueKeys(SentKeys):
    """The keys of one queue."""

    #: hash: epoch, created, metadata, rank (the last one given), settings, counters
    queue: bytes
    #: zset: every message, by rank
    messages: bytes
    #: hash: rank -> envelope
    bodies: bytes
    #: zset: claimable now, by rank
    ready: bytes
    #: zset: held by a claim, by the end of the hold
    claimed: bytes
    #: zset: delayed, by the end of the delay
    delayed: bytes
    #: zset: every message, by expiry time
    expiry: bytes
    #: hash: rank -> id of the claim that took it last, and how often it was claimed
    holds: bytes
    #: hash: rank -> priority and group, where the queue goes by them
    order: bytes
    #: zset, score 0: messages of ordered groups that wait or hold their group up, by group and rank
    groups: bytes
    #: hash: claim id -> ttl and the claimed ranks
    claims: bytes
    #: zset: claim ids, by the end of the lease
    leases: bytes
    #: list: the latest claims without messages
    spent: bytes
    #: hash: digest of an idempotency key -> the answer given; of what identifies a message ->
    #: rank and time; and when these expire
    idempotency: bytes
    #: the same of the window before
    idempotency_old: bytes
    #: hash: digest of a dead letter that was posted; and when these expire
    dead_letters: bytes
    #: the same of the window before
    dead_letters_old: bytes
    #: hash: digest of a writer -> its last chunk that was appended
    ledger: bytes
    #: zset: those digests, by the time they expire
    ledger_ends: bytes
    #: hash with an expiry: chunks that wait to be published, and what is being published
    stages: bytes
    #: hash: id -> subscription
    subscriptions: bytes
    #: hash: subscriber -> id of its subscription
    subscribers: bytes
    #: zset, score 0: ids of subscriptions
    subscription_ids: bytes
    #: zset: ids of subscriptions, by expiry
    subscription_ends: bytes
    #: stream: what was posted and is yet to be dispatched to the subscriptions
    deliveries: bytes
    #: hash: <subscription> <rank> -> a delivery that is tried again, waits, or was given up
    pending: bytes
    #: zset, score 0: those that are not given up
    pending_ids: bytes
    #: zset: those that are tried again, and subscriptions whose others wait, by when
    pending_due: bytes
    #: zset: all of them, by the expiry of the message
    pending_ends: bytes
    #: hash: <subscription> and what -> how its deliveries go
    delivery_states: bytes
    #: string with an expiry: the notifier that delivers
    delivery_lease: bytes
    #: zset of all queues in this one's slot with deliveries, by when the next is due
    delivery_index: bytes
    #: zset of all queues in this one's slot, by when they are to be swept next
    sweep_index: bytes
    #: string: the move lock, while the queue moves between stores
    move_lock: bytes
    #: string with an expiry: the reserved epoch of a queue that does not exist
    reserved_epoch: bytes
    #: channel: how many messages were posted or became ready
    feed: bytes
    #: channel: messages as they are posted, if the feed has subscribers
    live: bytes

    __slots__ = tuple(__annotations__)

    def __init__(self, project: str, queue: str) -> None:
        super().__init__()
        of_queue = entry(project, queue)
        self.queue = tag = b"zr:{%b}" % of_queue
        self.messages, self.bodies = tag + b":messages", tag + b":bodies"
        self.ready, self.claimed = tag + b":ready", tag + b":claimed"
        self.delayed, self.expiry, self.holds = tag + b":delayed", tag + b":expiry", tag + b":holds"
        self.order, self.groups = tag + b":order", tag + b":groups"
        self.claims, self.leases, self.spent = tag + b":claims", tag + b":leases", tag + b":spent"
        self.idempotency, self.idempotency_old = tag + b":idempotency", tag + b":idempotency_old"
        self.dead_letters, self.dead_letters_old = tag + b":letters", tag + b":letters_old"
        self.ledger, self.ledger_ends = tag + b":ledger", tag + b":ledger_ends"
        self.stages, self.subscriptions = tag + b":stages", tag + b":subscriptions"
        self.subscribers, self.subscription_ids = tag + b":subscribers", tag + b":subscription_ids"
        self.subscription_ends, self.deliveries = tag + b":subscription_ends", tag + b":deliveries"
        self.pending, self.pending_ids = tag + b":pending", tag + b":pending_ids"
        self.pending_due, self.pending_ends = tag + b":pending_due", tag + b":pending_ends"
        self.delivery_states = tag + b":delivery_states"
        self.delivery_lease, self.move_lock = tag + b":delivery_lease", tag + b":gate"
        self.feed, self.live = tag + b":feed", tag + b":live"
        self.reserved_epoch = _RESERVED_EPOCH + b"{%b}" % of_queue
        slot = slot_indexes.slot_of(of_queue)
        self.delivery_index = slot_indexes.of_deliveries()[slot]
        self.sweep_index = slot_indexes.of_sweeps()[slot]


#: What is stored of each message.
_MESSAGE = (
    *("messages", "bodies", "ready", "claimed", "delayed", "expiry", "holds"),
    *("order", "groups"),
)
#: What is stored of messages and claims.
_CONTENT = (*_MESSAGE, "claims", "leases", "spent")

#: What is stored of deliveries to the subscribers of a queue.
_DELIVERIES = (
    *("deliveries", "pending", "pending_ids", "pending_due", "pending_ends"),
    "delivery_states",
)

#: Keys of a queue that many scripts name together, as ``@name`` (see `script`).
GROUPS = {
    "message": _MESSAGE,
    "content": _CONTENT,
    #: all that belongs to a queue, and moves with it
    "queue": (
        "queue",
        *_CONTENT,
        *("idempotency", "idempotency_old", "dead_letters", "dead_letters_old"),
        *("ledger", "ledger_ends"),
        *("subscriptions", "subscribers", "subscription_ids", "subscription_ends"),
        *_DELIVERIES,
    ),
    "deliveries": _DELIVERIES,
    #: what lua/shared/subscription.lua needs
    "subscription": (
        *("queue", "subscriptions", "subscribers", "subscription_ids", "subscription_ends"),
        *("pending", "pending_due", "delivery_states", "delivery_index"),
    ),
    #: what posts need beside "append" to create a queue, and for those with limits or an order
    "room": ("reserved_epoch", "order", "groups", "claimed", "holds", "claims", "leases"),
    #: what lua/shared/append.lua needs
    "append": (
        *("queue", "messages", "bodies", "ready", "delayed", "expiry"),
        *("move_lock", "sweep_index", "deliveries", "delivery_index"),
    ),
}


class FigureKeys:
    """The keys of a queue that its figures are read from: few, for many queues at once."""

    __slots__ = (
        *("queue", "messages", "bodies", "claimed", "delayed", "expiry", "holds", "claims"),
        *("leases", "subscription_ends", "delivery_states"),
    )

    def __init__(self, project: str, queue: str) -> None:
        # As in `QueueKeys`, which takes five times as long; and its cache is for hot queues.
        self.queue = tag = b"zr:{%b}" % entry(project, queue)
        self.messages, self.bodies = tag + b":messages", tag + b":bodies"
        self.claimed, self.delayed = tag + b":claimed", tag + b":delayed"
        self.expiry, self.holds, self.claims = tag + b":expiry", tag + b":holds", tag + b":claims"
        self.leases, self.delivery_states = tag + b":leases", tag + b":delivery_states"
        self.subscription_ends = tag + b":subscription_ends"


class TermKeys:
    """The keys of one kind of things of a queue that expire on their own."""

    __slots__ = ("move_lock", "terms", "things")

    def __init__(self, of: QueueKeys, terms: str, things: str) -> None:
        #: zset: ids, by expiry
        self.terms: bytes = getattr(of, terms)
        #: hash: id -> what belongs to it
        self.things: bytes = getattr(of, things)
        self.move_lock = of.move_lock


class RecordKeys:
    """The keys of one generation of a queue's idempotency records or dead-letter records."""

    __slots__ = ("move_lock", "records")

    def __init__(self, of: QueueKeys, records: str) -> None:
        #: hash: name -> record
        self.records: bytes = getattr(of, records)
        self.move_lock = of.move_lock


def idempotency_key(key: str) -> bytes:
    """Returns the digest of an idempotency key, which may be long, and is a secret."""
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def dedup(name: str) -> bytes:
    """Returns the digest of what identifies a message, for the same hash."""
    return hashlib.blake2b(name.encode(), digest_size=16, person=b"dedup").digest()


def ledger(name: str) -> str:
    """Returns the digest by which a queue's ledger names a writer."""
    return hashlib.blake2b(name.encode(), digest_size=16, person=b"ledger").hexdigest()


class ProjectKeys:
    """The keys of one project."""

    __slots__ = ("queues", "topics")

    def __init__(self, project: str) -> None:
        #: zset, score 0: queue names, paged by name
        self.queues = _LIST + quote(project, safe="").encode()
        #: zset, score 0: names of the queues that are topics
        self.topics = self.queues + _OF_TOPICS

    def listing(self, *, topics: bool) -> bytes:
        return self.topics if topics else self.queues

    def list_of(self, queue: str) -> bytes:
        """Returns the list that has a queue."""
        return self.topics if is_topic(queue) else self.queues


class ChannelKeys:
    """The keys of one channel, whose name has its project in it."""

    __slots__ = ("channel", "history", "news", "once", "presence", "present", "users")

    def __init__(self, name: str) -> None:
        tag = _CHANNELS + f"{{{quote(name, safe='')}}}".encode()
        #: hash: epoch, offset, version and the version's epoch
        self.channel = tag
        #: stream: publications, by offset
        self.history = tag + b":history"
        #: zset: clients that are present, by the expiry of their presence
        self.presence = tag + b":presence"
        #: hash: client -> user and info
        self.present = tag + b":present"
        #: hash: user -> number of clients
        self.users = tag + b":users"
        #: PUB/SUB channel: publications, joins and leaves
        self.news = tag + b":news"
        #: prefix of the idempotency keys of publications, see `DedupKeys`; never a key itself
        self.once = tag + b":once:"


class DedupKeys:
    """The keys of a channel, with that of the idempotency key of one publication."""

    __slots__ = ("channel", "history", "once")

    def __init__(self, of: ChannelKeys, key: str) -> None:
        self.channel = of.channel
        self.history = of.history
        #: string with an expiry: the position that the publication was given
        self.once = of.once + idempotency_key(key).hex().encode()


_CHANNELS = b"zr:channel:"
_BUS = b"zr:bus:"
#: PUB/SUB channel: queues with the first delivery that is due, by their names in the catalogue.
DELIVERIES = b"zr:deliveries"
#: Of the PUB/SUB channels of nodes.
_PREFIX = b"zr:"
_RESERVED_EPOCH = b"zr:unborn:"
_WRITTEN = b"zr:written:"
_TAG = re.compile(rb"\{([^}]+)\}")
_LIST = b"zr:queues:"
#: Behind the name of a project, in which a colon is encoded.
_OF_TOPICS = b":topics"

#: Every project's lists, for SCAN.
LISTS = _LIST + b"*"

#: All keys of this service, for SCAN.
EVERYTHING = b"zr:*"

#: string with an expiry: the process that sweeps at the moment
SWEEPER = b"zr:sweeper"
#: string with an expiry: the process that has read the delivery indexes last
NOTIFIER = b"zr:notifier"
#: string: the installation that the store belongs to
OWNER = b"zr:owner"

of_queue = functools.lru_cache(maxsize=_CACHE_SIZE)(QueueKeys)
of_channel = functools.lru_cache(maxsize=_CACHE_SIZE)(ChannelKeys)
of_project = functools.lru_cache(maxsize=_CACHE_SIZE)(ProjectKeys)


def pubsub_of(channel: bytes) -> bytes:
    """Returns the PUB/SUB channel of a channel, by its name on buses, or of nodes."""
    return of_channel(channel.decode()).news if b"/" in channel else _PREFIX + channel


def of_bus_channel(channel: bytes) -> bytes:
    """Returns the PUB/SUB channel of a channel of a bus that stores nothing."""
    return _BUS + channel


def project_of(listing: bytes) -> str:
    """Returns the project of a list of queues or topics, by its key."""
    return unquote(listing.removeprefix(_LIST).removesuffix(_OF_TOPICS).decode())


def lists_topics(listing: bytes) -> bool:
    """Returns whether the key of a list is that of topics."""
    return listing.endswith(_OF_TOPICS)


@functools.cache
def _queue_suffixes() -> frozenset[bytes]:
    """Returns the suffixes behind the hash tag of a queue's keys."""
    one = QueueKeys("", "")
    return frozenset(getattr(one, slot).rpartition(b"}")[2].lstrip(b":") for slot in one.__slots__)


_QUEUE_KEY = re.compile(rb"zr:\{([^/{}]*/[^/{}]+)\}(?::([a-z_]+))?")


def queue_tag(key: bytes) -> bytes | None:
    """Returns the tag of a queue's key, for `queue_of`; None for other keys."""
    found = _QUEUE_KEY.fullmatch(key)
    known = found and (found[2] or b"") in _queue_suffixes()
    return found[1] if found and known else None


def written(key: bytes | str | int) -> bytes:
    """Returns the name of what is written behind changes of a key, in its slot."""
    name = key if isinstance(key, bytes) else str(key).encode()
    tag = _TAG.search(name)
    return _WRITTEN + b"{%b}" % (tag[1] if tag else name)


def is_service_key(key: bytes) -> bool:
    """Returns whether a key that is no queue's belongs to the service."""
    prefixes = (
        *(_LIST, _CHANNELS, routing_keys.PREFIX, _RESERVED_EPOCH, _WRITTEN),
        *slot_indexes.PREFIXES,
    )
    return key in (SWEEPER, NOTIFIER, OWNER) or key.startswith((*prefixes, ControlKeys.prefix))


def entry(project: str, queue: str) -> bytes:
    """Returns the name of a queue in the catalogue.

    The colon of topics stays, so that names and entries have the same order.
    """
    return f"{quote(project, safe='')}/{quote(queue, safe=':')}".encode()


def queue_of(entry: bytes) -> tuple[str, str]:
    """Returns project and name of a queue, by its name in the catalogue."""
    project, queue = entry.decode().split("/")
    return unquote(project), unquote(queue)
