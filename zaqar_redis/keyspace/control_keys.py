# SPDX-License-Identifier: Apache-2.0
"""The keys of the control store: pools, flavors, catalogue, roles, access keys, quotas.

All are in one slot.
"""

from __future__ import annotations

from urllib.parse import quote


class ControlKeys:
    """The control keys that belong to no single queue, project, pool, role or access key."""

    __slots__ = (
        "access_keys",
        "catalogue",
        "deleted",
        "flavors",
        "format",
        "installation",
        "jobs",
        "largest_queues",
        "moves",
        "news",
        "pools",
        "queue_alarms",
        "quota_version",
        "quotas",
        "version",
        "workers",
    )

    #: of all their names
    prefix = b"zr:{control}:"

    def __init__(self) -> None:
        #: zset, score 0: ids of access keys, for listing
        self.access_keys = _CONTROL + b"access_keys"
        #: hash: name -> pool
        self.pools = _CONTROL + b"pools"
        #: hash: name -> what it can do, as JSON
        self.flavors = _CONTROL + b"flavors"
        #: hash: <project>/<queue> -> pool
        self.catalogue = _CONTROL + b"catalogue"
        #: hash: <project>/<queue> -> its move from one pool to another
        self.moves = _CONTROL + b"moves"
        #: hash: name -> job and its progress, as JSON
        self.jobs = _CONTROL + b"jobs"
        #: zset: <project>/<queue>, deleted but still in the catalogue, by time
        self.deleted = _CONTROL + b"deleted"
        #: string: the id that marks the stores of this installation
        self.installation = _CONTROL + b"installation"
        #: hash: version of the store's format, and the version that releases need.  Every store
        #: has it, by a name that releases before it take for one of the service
        self.format = _CONTROL + b"format"
        #: string: how often pools and flavors have changed
        self.version = _CONTROL + b"version"
        #: hash: project -> its quota, as JSON
        self.quotas = _CONTROL + b"quotas"
        #: string: how often quotas have changed
        self.quota_version = _CONTROL + b"quota_version"
        #: hash with an expiry: worker -> until when it lives, and its sockets by project
        self.workers = _CONTROL + b"workers"
        #: hash with an expiry: project -> alarms about its queues, as JSON
        self.queue_alarms = _CONTROL + b"queue_alarms"
        #: string with an expiry: store -> its largest queues, as JSON
        self.largest_queues = _CONTROL + b"largest_queues"
        #: PUB/SUB channel: what changed
        self.news = _CONTROL + b"news"


_CONTROL = ControlKeys.prefix
CONTROL = ControlKeys()


def is_catalogue_key(key: bytes) -> bool:
    """Returns whether a key of the control store is about the pools of queues."""
    kind = key.removeprefix(_CONTROL).partition(b":")[0]
    return kind in (b"catalogue", b"deleted", b"moves", b"project", b"queues")


class EntryKeys:
    """The control keys, with that of one queue."""

    __slots__ = ("queue_history", "reserved_epoch")

    def __init__(self, queue: bytes) -> None:
        #: string with an expiry: the reserved epoch of the queue, which is in no pool yet
        self.reserved_epoch = _CONTROL + b"unborn:" + queue
        #: list with an expiry: points of the queue's history, in msgpack
        self.queue_history = _CONTROL + b"history:" + queue

    def __getattr__(self, name: str) -> bytes:
        return getattr(CONTROL, name)  # type: ignore[no-any-return]  # slots of bytes


class CatalogueKeys(EntryKeys):
    """The control keys, with those of one project, one or two pools, and perhaps a queue."""

    __slots__ = ("origins", "project", "queues")

    def __init__(self, project: str, pool: str, origin: str = "", queue: bytes = b"") -> None:
        super().__init__(queue)
        #: hash: pool -> how many of the project's queues it has
        self.project = _CONTROL + b"project:" + quote(project, safe="").encode()
        #: zset, score 0: <project>/<queue> of the pool's queues
        self.queues = pool_queues(pool)
        #: the same of the pool that a queue moves from
        self.origins = pool_queues(origin)


def pool_queues(pool: str) -> bytes:
    return _CONTROL + b"queues:" + quote(pool, safe="").encode()


class RoleKeys:
    """The key of one role."""

    __slots__ = ("role",)

    def __init__(self, name: str) -> None:
        #: string with an expiry: the process that has the role
        self.role = _CONTROL + b"role:" + name.encode()


class AccessKeyKeys:
    """The control keys, with that of one access key."""

    __slots__ = ("access_key", "access_keys")

    def __init__(self, key_id: str) -> None:
        #: hash: what it grants, its sealed secret, whether it is disabled, its last use
        self.access_key = _CONTROL + b"access_key:" + key_id.encode()
        self.access_keys = CONTROL.access_keys
