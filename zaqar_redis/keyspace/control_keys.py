# SPDX-License-Identifier: Apache-2.0
"""The keys of the control store: pools, flavors, catalogue, roles, access keys, quotas, schedules.

All are in one slot.
"""

from __future__ import annotations

from urllib.parse import quote


class ControlKeys:
    """The control keys that belong to no single queue, project, pool, role or access key."""

    #: of all their names
    prefix = b"zr:{control}:"

    #: zset, score 0: ids of access keys, for listing
    access_keys: bytes
    #: hash: name -> pool
    pools: bytes
    #: hash: name -> what it can do, as JSON
    flavors: bytes
    #: hash: <project>/<queue> -> pool
    catalogue: bytes
    #: hash: <project>/<queue> -> its move from one pool to another
    moves: bytes
    #: hash: name -> job and its progress, as JSON
    jobs: bytes
    #: zset: <project>/<queue>, deleted but still in the catalogue, by time
    deleted: bytes
    #: string: the id that marks the stores of this installation
    installation: bytes
    #: hash: version of the store's format, and the version that releases need.  Every store
    #: has it, by a name that releases before it take for one of the service
    format: bytes
    #: string: how often pools and flavors have changed
    version: bytes
    #: hash: project -> its quota, as JSON
    quotas: bytes
    #: string: how often quotas have changed
    quota_version: bytes
    #: hash with an expiry: worker -> until when it lives, and its sockets by project
    workers: bytes
    #: hash with an expiry: project -> alarms about its queues, as JSON
    queue_alarms: bytes
    #: string with an expiry: store -> its largest queues, as JSON
    largest_queues: bytes
    #: zset: <project>/<schedule> by when it is due
    due_schedules: bytes
    #: string: the highest time at which a schedule was planned, by the clock of this store
    schedule_clock: bytes
    #: PUB/SUB channel: what changed
    news: bytes

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, self.prefix + name.encode())


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


class ScheduleKeys:
    """The control keys, with those of one schedule."""

    __slots__ = ("due_schedules", "schedule", "schedule_clock", "schedules")

    def __init__(self, entry: bytes) -> None:
        """*entry*: <project>/<schedule>."""
        #: hash: what it posts and when, when it is due, when it has posted last
        self.schedule = _CONTROL + b"schedule:" + entry
        #: zset, score 0: names of the project's schedules, for listing
        self.schedules = _CONTROL + b"schedules:" + entry.partition(b"/")[0]
        self.due_schedules = CONTROL.due_schedules
        self.schedule_clock = CONTROL.schedule_clock
