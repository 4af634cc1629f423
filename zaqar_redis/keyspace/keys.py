# SPDX-License-Identifier: Apache-2.0
"""Every key: its name, its type, its hash tag.

All keys of a queue share the tag ``{<project>/<queue>}``, so one script may
touch them all, in a cluster too.  Project ids and queue names are
percent-encoded outside ``A-Z a-z 0-9 _ . - ~``: neither a brace nor a separator
can forge a tag.  No project at all, which stock Zaqar's storage layer allows,
is the empty text; a project named by a client is never empty.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from binascii import crc_hqx
from urllib.parse import quote, unquote

#: Queues whose key names are remembered: about 2 KB each.
_REMEMBERED = 4096


class QueueKeys:
    """The keys of one queue."""

    __slots__ = (
        "bodies",
        "claimed",
        "claims",
        "delayed",
        "due",
        "expiry",
        "feed",
        "gate",
        "holds",
        "idempotency",
        "idempotency_old",
        "leases",
        "ledger",
        "ledger_ends",
        "letters",
        "letters_old",
        "live",
        "messages",
        "queue",
        "ready",
        "spent",
        "stages",
        "subscribers",
        "subscription_ends",
        "subscription_ids",
        "subscriptions",
        "unborn",
    )

    def __init__(self, project: str, queue: str) -> None:
        of_queue = entry(project, queue)
        name = f"{{{of_queue.decode()}}}"
        tag = f"zr:{name}"
        #: hash: epoch, created, metadata, rank (the last one given), settings
        self.queue = tag.encode()
        #: zset: every message, by rank
        self.messages = f"{tag}:messages".encode()
        #: hash: rank -> envelope
        self.bodies = f"{tag}:bodies".encode()
        #: zset: claimable now, by rank
        self.ready = f"{tag}:ready".encode()
        #: zset: held by a claim, by the time the hold ends
        self.claimed = f"{tag}:claimed".encode()
        #: zset: delayed, by the time the delay ends
        self.delayed = f"{tag}:delayed".encode()
        #: zset: every message, by expiry time
        self.expiry = f"{tag}:expiry".encode()
        #: hash: rank -> id of the claim that took it last and how often it was taken
        self.holds = f"{tag}:holds".encode()
        #: hash: claim id -> ttl and the ranks it took
        self.claims = f"{tag}:claims".encode()
        #: zset: claim ids, by the end of the lease
        self.leases = f"{tag}:leases".encode()
        #: list: the latest claims without messages
        self.spent = f"{tag}:spent".encode()
        #: hash: digest of an idempotency key -> the answer given; and when these are forgotten
        self.idempotency = f"{tag}:idempotency".encode()
        #: the same of the window before
        self.idempotency_old = f"{tag}:idempotency_old".encode()
        #: hash: digest of a dead letter that came in; and when these are forgotten
        self.letters = f"{tag}:letters".encode()
        #: the same of the window before
        self.letters_old = f"{tag}:letters_old".encode()
        #: hash: digest of a writer -> what came in from it last
        self.ledger = f"{tag}:ledger".encode()
        #: zset: those digests, by the time they are forgotten
        self.ledger_ends = f"{tag}:ledger_ends".encode()
        #: hash with an expiry: chunks that wait to be published, and what is being published
        self.stages = f"{tag}:stages".encode()
        #: hash: id -> subscription
        self.subscriptions = f"{tag}:subscriptions".encode()
        #: hash: subscriber -> id of its subscription
        self.subscribers = f"{tag}:subscribers".encode()
        #: zset, score 0: ids of subscriptions
        self.subscription_ids = f"{tag}:subscription_ids".encode()
        #: zset: ids of subscriptions, by expiry
        self.subscription_ends = f"{tag}:subscription_ends".encode()
        #: zset of all queues in this one's slot: when something of them is due next
        self.due = due_indexes()[_slot(of_queue)]
        #: string: keeps everybody out while the queue moves between stores
        self.gate = f"{tag}:gate".encode()
        #: string with an expiry: the epoch that a queue is to have that is not there
        self.unborn = _UNBORN + name.encode()
        #: channel: how many messages came or became ready
        self.feed = f"{tag}:feed".encode()
        #: channel: messages as they come, if anybody hears the feed
        self.live = f"{tag}:live".encode()


class TermKeys:
    """Things of a queue that have an end of their own."""

    __slots__ = ("gate", "terms", "things")

    def __init__(self, of: QueueKeys, terms: str, things: str) -> None:
        self.terms: bytes = getattr(of, terms)
        self.things: bytes = getattr(of, things)
        self.gate = of.gate


class RecordKeys:
    """One generation of a queue's idempotency records, or of its letters."""

    __slots__ = ("gate", "records")

    def __init__(self, of: QueueKeys, records: str) -> None:
        self.records: bytes = getattr(of, records)
        self.gate = of.gate


def retry(key: str) -> bytes:
    """How a queue's records name an idempotency key: it may be long, and is a secret."""
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def ledger(name: str) -> str:
    """How a queue's ledger names a writer."""
    return hashlib.blake2b(name.encode(), digest_size=16, person=b"ledger").hexdigest()


class ProjectKeys:
    """The keys of one project."""

    __slots__ = ("queues",)

    def __init__(self, project: str) -> None:
        #: zset, score 0: queue names, paged by name
        self.queues = _LIST + quote(project, safe="").encode()


class TopicKeys:
    """The keys of one project's topics."""

    __slots__ = ("topic_names", "topics")

    def __init__(self, project: str) -> None:
        tag = f"{quote(project, safe='')}"
        #: hash: name -> metadata as JSON
        self.topics = _TOPICS + f"{{{tag}}}".encode()
        #: zset, score 0: names of topics
        self.topic_names = _TOPICS + f"{{{tag}}}:names".encode()


class ChannelKeys:
    """The keys of one channel, whose name has its project in it."""

    __slots__ = ("channel", "history", "news", "once", "presence", "present", "users")

    def __init__(self, name: str) -> None:
        tag = _CHANNELS + f"{{{quote(name, safe='')}}}".encode()
        #: hash: epoch, offset, version and what it is of
        self.channel = tag
        #: stream: publications, by offset
        self.history = tag + b":history"
        #: zset: clients that are in it, by when that lapses
        self.presence = tag + b":presence"
        #: hash: client -> user and info
        self.present = tag + b":present"
        #: hash: user -> how many clients
        self.users = tag + b":users"
        #: channel: publications, joins and leaves
        self.news = tag + b":news"
        #: what keys begin with that a publication may have once, see `OnceKeys`; never there
        self.once = tag + b":once:"


class OnceKeys:
    """Those of a channel, with that of a key which a publication may have once."""

    __slots__ = ("channel", "history", "once")

    def __init__(self, of: ChannelKeys, key: str) -> None:
        self.channel = of.channel
        self.history = of.history
        #: string with an expiry: the position that the publication was given
        self.once = of.once + retry(key).hex().encode()


#: Slots of a Redis Cluster.
_SLOTS = 16384


def _slot(tag: bytes) -> int:
    """Where Redis Cluster has the keys with a hash tag: by CRC-16, XMODEM's."""
    return crc_hqx(tag, 0) % _SLOTS


@functools.cache
def due_indexes() -> tuple[bytes, ...]:
    """Of each slot, in order, the zset of its queues by when something of them is due.

    There is one for each slot, so that the scripts of a queue may write to it.  Its tag
    is the least number that is of this slot.
    """
    found: dict[int, bytes] = {}
    for number in itertools.count():
        tag = b"%d" % number
        found.setdefault(_slot(tag), _DUE + b"{%b}" % tag)
        if len(found) == _SLOTS:
            return tuple(found[slot] for slot in range(_SLOTS))
    raise AssertionError("numbers do not end")


_CHANNELS = b"zr:channel:"
_DUE = b"zr:due:"
#: PUB/SUB channels of nodes: of all, and behind it the name of one.
NODES = b"zr:nodes"
_UNBORN = b"zr:unborn:"
_TOPICS = b"zr:topics:"
_LIST = b"zr:queues:"

#: Every project's list, for SCAN.
LISTS = _LIST + b"*"

#: All keys of this service, for SCAN.
EVERYTHING = b"zr:*"

#: string with an expiry: the process that sweeps at the moment
SWEEPER = b"zr:sweeper"
#: string: the installation that the store belongs to
OWNER = b"zr:owner"

of_queue = functools.lru_cache(maxsize=_REMEMBERED)(QueueKeys)
of_channel = functools.lru_cache(maxsize=_REMEMBERED)(ChannelKeys)
of_project = functools.lru_cache(maxsize=_REMEMBERED)(ProjectKeys)


def project_of(listing: bytes) -> str:
    """The project whose list this key is."""
    return unquote(listing.removeprefix(_LIST).decode())


_QUEUE_KEY = re.compile(rb"zr:\{([^/{}]*/[^/{}]+)\}(?::([a-z_]+))?")


def queue_tag(key: bytes) -> bytes | None:
    """What `queue_of` understands, of a key that belongs to a queue; None of any other."""
    found = _QUEUE_KEY.fullmatch(key)
    known = found and (found[2] is None or found[2].decode() in QueueKeys.__slots__)
    return found[1] if found and known else None


def is_known(key: bytes) -> bool:
    """Whether a key that is no queue's is one of the service's."""
    ours = (_LIST, _TOPICS, _CHANNELS, _UNBORN, _DUE, ControlKeys.prefix)
    return key in (SWEEPER, OWNER) or key.startswith(ours)


class ControlKeys:
    """What the operator owns: pools, flavors, catalogue.  All of it in one slot."""

    __slots__ = (
        "catalogue",
        "deleted",
        "flavors",
        "installation",
        "jobs",
        "moves",
        "news",
        "pools",
        "version",
    )

    #: what all of their names begin with
    prefix = b"zr:{control}:"

    def __init__(self) -> None:
        #: hash: name -> pool
        self.pools = _CONTROL + b"pools"
        #: hash: name -> what it can do, as JSON
        self.flavors = _CONTROL + b"flavors"
        #: hash: <project>/<queue> -> pool
        self.catalogue = _CONTROL + b"catalogue"
        #: hash: <project>/<queue> -> its move from one pool to another
        self.moves = _CONTROL + b"moves"
        #: hash: name -> how the job goes, as JSON
        self.jobs = _CONTROL + b"jobs"
        #: zset: <project>/<queue>, deleted but not forgotten yet, by time
        self.deleted = _CONTROL + b"deleted"
        #: string: what stores are marked with that belong to this installation
        self.installation = _CONTROL + b"installation"
        #: string: how often pools and flavors have changed
        self.version = _CONTROL + b"version"
        #: channel: what changed
        self.news = _CONTROL + b"news"


def is_of_places(key: bytes) -> bool:
    """Whether a key of the control store says where queues are."""
    kind = key.removeprefix(_CONTROL).partition(b":")[0]
    return kind in (b"catalogue", b"deleted", b"moves", b"project", b"queues")


class PlaceKeys:
    """The control keys, with those of one project, one or two pools, and perhaps a queue."""

    __slots__ = ("origins", "project", "queues", "unborn")

    def __init__(self, project: str, pool: str, origin: str = "", queue: bytes = b"") -> None:
        #: hash: pool -> how many of the project's queues live there
        self.project = _CONTROL + b"project:" + quote(project, safe="").encode()
        #: zset, score 0: <project>/<queue> of those that live in the pool
        self.queues = pool_queues(pool)
        #: the same of the pool that a queue moves from
        self.origins = pool_queues(origin)
        #: string with an expiry: the epoch that the queue is to have, which is in no pool yet
        self.unborn = _CONTROL + b"unborn:" + queue

    def __getattr__(self, name: str) -> bytes:
        return getattr(CONTROL, name)  # type: ignore[no-any-return]  # slots of bytes


class EntryKeys:
    """The control keys, with that of one queue."""

    __slots__ = ("unborn",)

    def __init__(self, queue: bytes) -> None:
        self.unborn = _CONTROL + b"unborn:" + queue

    def __getattr__(self, name: str) -> bytes:
        return getattr(CONTROL, name)  # type: ignore[no-any-return]  # slots of bytes


def pool_queues(pool: str) -> bytes:
    return _CONTROL + b"queues:" + quote(pool, safe="").encode()


class RoleKeys:
    """The key of one role."""

    __slots__ = ("role",)

    def __init__(self, name: str) -> None:
        #: string with an expiry: the process that has the role at the moment
        self.role = _CONTROL + b"role:" + name.encode()


def entry(project: str, queue: str) -> bytes:
    """How the catalogue writes a queue."""
    return f"{quote(project, safe='')}/{quote(queue, safe='')}".encode()


def queue_of(entry: bytes) -> tuple[str, str]:
    """Project and name of a queue that the catalogue wrote."""
    project, queue = entry.decode().split("/")
    return unquote(project), unquote(queue)


_CONTROL = ControlKeys.prefix
CONTROL = ControlKeys()
