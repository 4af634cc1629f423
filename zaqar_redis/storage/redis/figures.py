# SPDX-License-Identifier: Apache-2.0
"""Figures of a Redis, and of many of its queues, for operators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from zaqar_redis.figures import (
    FailingSubscriptions,
    QueueFigures,
    StoreSettings,
    StoreStatus,
)
from zaqar_redis.keyspace import cluster, keys
from zaqar_redis.keyspace.client import CommandRefused
from zaqar_redis.keyspace.script import RedisCommand, Script, Steps, Verb, verb
from zaqar_redis.storage.redis import decoding, identity
from zaqar_redis.storage.redis.resource import RedisResource
from zaqar_redis.storage.redis.scanning import lists

_FIGURES = Script("queue_figures")
#: Seconds for which a replica may be silent: it confirms every second.
_LAG_MAX = 10
#: Names read at once: a millisecond or so.
_NAMES = 500
#: Those that `StoreSettings` is made of.  One at a time: several at once need Redis 7.
_SETTINGS = ("save", "appendfsync", "bind", "port", "tls-port", "protected-mode")


class RedisFigures(RedisResource):
    @verb
    def status(self) -> Steps[StoreStatus | None]:
        try:
            told = yield RedisCommand("INFO")
        except CommandRefused:  # a user without the right to it, or no Redis at all
            return None
        fields = _fields(told.decode(errors="replace"))
        slots = (yield cluster.SLOTS) if fields.get("cluster_enabled") == "1" else None
        try:
            *found, user = yield [
                *(RedisCommand("CONFIG", "GET", name) for name in _SETTINGS),
                RedisCommand("ACL", "GETUSER", "default"),
            ]
            settings = _settings(
                dict(filter(None, found)), dict(zip(user[::2], user[1::2], strict=True))
            )
        except (CommandRefused, KeyError):  # as with many hosted ones; they may hide some
            settings = None
        return _status(fields, slots, settings, self.client.settings.ack_replicas)

    def queues(self, project: str, names: Sequence[str]) -> Verb[Sequence[QueueFigures]]:
        """The answer may be a moment old."""
        return Verb(self.client.reader, self._queues(project, names))

    def _queues(self, project: str, names: Sequence[str]) -> Steps[Sequence[QueueFigures]]:
        now = self._now()
        answers = yield [_FIGURES(keys.FigureKeys(project, name), now=now) for name in names]
        return [
            _figures(name, *answer)
            for name, answer in zip(names, answers, strict=True)
            if answer[1] is not None
        ]

    @verb
    def names(
        self, project: str, after: str, limit: int, *, topics: bool = False
    ) -> Steps[Sequence[str]]:
        listing = keys.of_project(project).listing(topics=topics)
        names = yield RedisCommand.page(listing, after, limit)
        return [name.decode() for name in names]

    def projects(self) -> AsyncIterator[tuple[str, bool]]:
        return lists(self.client)

    async def content(self) -> AsyncIterator[tuple[str, Sequence[str]]]:
        """Yields projects with pages of the names of their queues, and of their topics."""
        async for project, topics in lists(self.client):
            after = ""
            while names := await self.names(project, after, _NAMES, topics=topics):
                yield project, names
                after = names[-1]


def _figures(
    name: str,
    now: int,
    epoch: bytes,
    created: bytes,
    dead_letter_queue: bytes | None,
    total: int,
    not_swept: int,
    claimed: int,
    delayed: int,
    subscriptions: int,
    failing: Sequence[Any] | None,
    on_expiry: bytes | None,
    *rest: Any,
) -> QueueFigures:
    counters = decoding.counters(total + not_swept, rest[: decoding.COUNTERS])
    if not_swept and on_expiry == b"dead_letter" and dead_letter_queue:
        counters = replace(counters, dead_lettered=counters.dead_lettered + not_swept)
    elif not_swept:
        counters = replace(counters, expired=counters.expired + not_swept)
    known = (*rest[decoding.COUNTERS :], None, None, None, None, None)
    oldest, size, holder, held_since, client = known[:5]
    return QueueFigures(
        name=name,
        at=now,
        epoch=epoch.decode(),
        created=int(created),
        total=total,
        claimed=claimed,
        delayed=delayed,
        subscriptions=subscriptions,
        failing=None if failing is None else _failing(*failing),
        oldest=int(oldest or 0),
        message_size=size or 0,
        holder=(holder or b"").decode(),
        holder_client=identity.given_client(client or b""),
        held_since=int(held_since or 0),
        on_expiry=(on_expiry or b"").decode(),
        dead_letter_queue=(dead_letter_queue or b"").decode(),
        counters=counters,
    )


def _failing(number: int, id: bytes, since: bytes, last: bytes) -> FailingSubscriptions:
    failed_at, _status, error = last.decode().split(" ", 2)
    return FailingSubscriptions(number, id.decode(), int(since), int(failed_at), error)


def _fields(told: str) -> dict[str, str]:
    """Returns the fields of an INFO by name."""
    lines = (line.partition(":") for line in told.splitlines() if not line.startswith("#"))
    return {name: value for name, separator, value in lines if separator}


def _settings(found: Mapping[bytes, bytes], user: Mapping[bytes, Any]) -> StoreSettings:
    """*user*: the one whom clients are that do not log in."""
    return StoreSettings(
        snapshots=bool(found[b"save"]),
        appendfsync=found[b"appendfsync"].decode(),
        bind=tuple(found[b"bind"].decode().split()),
        port=int(found[b"port"]),
        tls_port=int(found.get(b"tls-port", 0)),
        protected=found[b"protected-mode"] == b"yes",
        password=not {b"on", b"nopass"} <= {*user[b"flags"]},
    )


def _status(
    told: Mapping[str, str],
    slots: Sequence[Any] | None,
    settings: StoreSettings | None,
    ack_replicas: int,
) -> StoreStatus:
    """*slots*: as a node of a cluster tells them, without replicas that have failed."""

    def number(name: str) -> int:
        return int(told.get(name) or 0)

    now = told.get("server_time_usec")
    replicas = number("connected_slaves")
    lags = [
        dict(part.split("=", 1) for part in told.get(f"slave{each}", "lag=0").split(","))
        for each in range(replicas)
    ]
    return StoreStatus(
        run=told.get("run_id", ""),
        version=told.get("valkey_version") or told.get("redis_version", ""),
        uptime=number("uptime_in_seconds"),
        now=int(now) // 1000 if now else None,
        memory_used=number("used_memory"),
        memory_max=number("maxmemory"),
        memory_policy=told.get("maxmemory_policy", ""),
        memory_machine=number("total_system_memory"),
        clients=number("connected_clients"),
        clients_max=number("maxclients"),
        clients_rejected=number("rejected_connections"),
        commands=number("instantaneous_ops_per_sec"),
        role=told.get("role", ""),
        has_master=told.get("master_link_status", "up") == "up",
        loading=told.get("loading") == "1",
        replicas=replicas,
        replicas_lagging=sum(
            each.get("state", "online") != "online" or int(each.get("lag", 0)) > _LAG_MAX
            for each in lags
        ),
        cluster_replicas=None if slots is None else _fewest_replicas(slots),
        ack_replicas=ack_replicas,
        aof=told.get("aof_enabled") == "1",
        aof_works=told.get("aof_last_write_status", "ok") == "ok",
        aof_rewrite_works=told.get("aof_last_bgrewrite_status", "ok") == "ok",
        rdb_works=told.get("rdb_last_bgsave_status", "ok") == "ok",
        last_snapshot=number("rdb_last_save_time"),
        not_in_snapshot=number("rdb_changes_since_last_save"),
        evicted=number("evicted_keys"),
        settings=settings,
    )


def _fewest_replicas(slots: Sequence[Any]) -> int:
    return min(map(len, cluster.replicas_in(slots, "").values()), default=0)
