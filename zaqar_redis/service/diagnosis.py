# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of a Redis: what is wrong with it as a store of queues, and what to do."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterator, Mapping
from enum import IntEnum

from msgspec import Struct

from zaqar_redis.keyspace.server_facts import ServerFacts

#: Our scripts need ZMSCORE, and LPOP with a count.
_VERSION_MIN = (6, 2)
_MEMORY_HIGH, _MEMORY_FULL = 0.75, 0.9
_CLIENTS_HIGH = 0.8
#: Milliseconds: the signatures of requests are good for a minute, tokens mostly for more.
_SKEW_HIGH, _SKEW_WRONG = 2_000, 30_000
#: Milliseconds of a round trip: one of the same network takes less than one.
_LATENCY_HIGH, _LATENCY_WRONG = 10, 100
#: Seconds since the last snapshot of a Redis that has no other persistence.
_SNAPSHOT_OLD = 2 * 3600


class Severity(IntEnum):
    NOTE = 0
    WARNING = 1
    ERROR = 2


class Diagnosis(Struct, frozen=True):
    """A finding: what is wrong, and what to do about it."""

    severity: Severity
    what: str
    remedy: str


def error(what: str, remedy: str) -> Diagnosis:
    return Diagnosis(Severity.ERROR, what, remedy)


def warning(what: str, remedy: str) -> Diagnosis:
    return Diagnosis(Severity.WARNING, what, remedy)


def note(what: str, remedy: str) -> Diagnosis:
    return Diagnosis(Severity.NOTE, what, remedy)


def diagnose(facts: ServerFacts) -> Iterator[Diagnosis]:
    """Yields the findings of one Redis."""
    yield from _version(facts.info)
    yield from _role(facts.info)
    yield from _persistence(facts)
    yield from _memory(facts.info)
    yield from _clients(facts.info)
    yield from _times(facts)
    if facts.config is None:
        yield note(
            "its settings cannot be read (CONFIG is not allowed)",
            "check bind, protected-mode, requirepass and tls-port yourself, or with the "
            "administrator's user",
        )
    else:
        yield from _exposure(facts.config)


def _version(info: Mapping[str, str]) -> Iterator[Diagnosis]:
    if "valkey_version" in info:
        return
    version = info.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < _VERSION_MIN:
        yield error(f"Redis {version} is too old", "upgrade to Redis 6.2 or newer, or to Valkey")


def _role(info: Mapping[str, str]) -> Iterator[Diagnosis]:
    if info.get("role", "master") != "master":
        yield error("it is a replica, and refuses writes", "name the primary in the URI")
    if info.get("loading") == "1":
        yield warning("it is still loading its data", "wait until it has loaded them")


def _persistence(facts: ServerFacts) -> Iterator[Diagnosis]:
    info = facts.info
    has_aof = info.get("aof_enabled") == "1"
    snapshots = None if facts.config is None else bool(facts.config.get("save"))
    if not has_aof and snapshots is False:
        yield error(
            "nothing is persisted: all messages are lost when it restarts",
            "CONFIG SET appendonly yes, and appendonly yes in redis.conf",
        )
    elif not has_aof:
        yield warning(
            "it persists by snapshots alone: a crash loses what came after the last one",
            "CONFIG SET appendonly yes, and appendonly yes in redis.conf",
        )
        age = time.time() - float(info.get("rdb_last_save_time") or 0)
        changes = int(info.get("rdb_changes_since_last_save") or 0)
        if changes and age > _SNAPSHOT_OLD:
            yield warning(
                f"the last snapshot is {age / 3600:.0f} hours old, with {changes} changes since",
                "BGSAVE now, and lower the times of `save`",
            )
    elif facts.config is not None and facts.config.get("appendfsync") == "no":
        yield warning(
            "appendfsync is no: a power failure loses up to half a minute",
            "CONFIG SET appendfsync everysec",
        )
    for field, kind in (
        ("aof_last_write_status", "append-only file"),
        ("aof_last_bgrewrite_status", "rewrite of the append-only file"),
        ("rdb_last_bgsave_status", "snapshot"),
    ):
        if info.get(field, "ok") != "ok":
            yield error(
                f"its last {kind} failed", "look into its log: mostly the disk is full or read-only"
            )


def _memory(info: Mapping[str, str]) -> Iterator[Diagnosis]:
    limit, used = int(info.get("maxmemory") or 0), int(info.get("used_memory") or 0)
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield error(
            f"maxmemory-policy is {policy}: when memory is short it deletes messages",
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
        )
    if evicted := int(info.get("evicted_keys") or 0):
        yield error(
            f"it has evicted {evicted} keys since it started: messages may be lost",
            "set maxmemory-policy noeviction, then `zaqar-redis check --repair`",
        )
    machine = int(info.get("total_system_memory") or 0)
    if not limit:
        yield warning(
            "it has no memory limit: the kernel ends it when memory is short",
            "CONFIG SET maxmemory, to three quarters of the machine's memory at most",
        )
    of = limit or machine
    share = used / of if of else 0.0
    if share >= _MEMORY_HIGH:
        yield (error if share >= _MEMORY_FULL else warning)(
            f"its memory is {share:.0%} full",
            "raise maxmemory, drain queues (`zaqar-redis top` shows which are long) or add a pool; "
            "when it is full, posts get 503",
        )


def _clients(info: Mapping[str, str]) -> Iterator[Diagnosis]:
    most, connected = int(info.get("maxclients") or 0), int(info.get("connected_clients") or 0)
    if most and connected >= _CLIENTS_HIGH * most:
        yield warning(f"{connected} of {most} connections are in use", "raise maxclients")
    if rejected := int(info.get("rejected_connections") or 0):
        yield warning(
            f"it has rejected {rejected} connections since it started", "raise maxclients"
        )


def _times(facts: ServerFacts) -> Iterator[Diagnosis]:
    skew = abs(facts.clock_skew)
    if skew >= _SKEW_HIGH:
        yield (error if skew >= _SKEW_WRONG else warning)(
            f"its clock differs from this machine's by {skew / 1000:.1f} s",
            "run chrony or ntpd on both machines",
        )
    if facts.latency >= _LATENCY_HIGH:
        yield (error if facts.latency >= _LATENCY_WRONG else warning)(
            f"it takes {facts.latency:.0f} ms to answer",
            "run it near the service; `redis-cli --latency` and SLOWLOG GET say more",
        )


def _exposure(config: Mapping[str, str]) -> Iterator[Diagnosis]:
    addresses = config.get("bind", "").split()
    is_open = config.get("port") != "0" and (not addresses or not all(map(_is_loopback, addresses)))
    has_password, protected = bool(config.get("requirepass")), config.get("protected-mode") == "yes"
    where = " ".join(addresses) or "all addresses"
    if is_open and not has_password and not protected:
        yield error(
            f"it listens on {where} without a password: whoever reaches it can read all",
            "set requirepass or users (ACL), or bind it to 127.0.0.1",
        )
    elif not protected and not has_password and config.get("port") != "0":
        yield warning(
            "protected-mode is off, and there is no password", "CONFIG SET protected-mode yes"
        )
    if is_open and has_password and config.get("tls-port", "0") == "0":
        yield warning(
            f"it listens on {where} without TLS: passwords and messages can be read on the way",
            "use tls-port and rediss:// URIs, or a network of its own",
        )


def _is_loopback(address: str) -> bool:
    try:
        # A minus: it may be missing on the machine.
        return ipaddress.ip_address(address.removeprefix("-")).is_loopback
    except ValueError:
        return address == "localhost"
