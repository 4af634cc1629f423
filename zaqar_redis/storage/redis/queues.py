# SPDX-License-Identifier: Apache-2.0
"""Queues in Redis."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from zaqar_redis import errors, formats, metadata_rules, retry_policies, rules
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import RedisCommand, Script, Steps, Verb, verb
from zaqar_redis.records import Page, Queue, QueueSize, Stats
from zaqar_redis.storage.redis import decoding, format_gate, identity
from zaqar_redis.storage.redis.resource import RedisResource

_CREATE = Script("queue_create")
_GET = Script("queue_get")
_UPDATE = Script("queue_update")
_DELETE = Script("queue_delete")
_STATS = Script("queue_stats")
_SIZE = Script("queue_size")
_PURGE = Script("queue_purge")
_SWEEP = Script("queue_sweep")

#: Names read at once when only some are wanted: few round trips, and small ones.
_LIST_STEP = 100
_ORDER = '"_group_mode" and "_priorities" are'
_EMPTY = msgspec.json.encode({})

#: Seconds, a hundred years: of a redelivery delay, whatever an operator allows.
_DELAY_MAX = 100 * 365 * 86400

#: Moves messages of a queue that were claimed too often, a step; returns how many.
MoveExhausted = Callable[[str, str], Verb[int]]
#: Calls of one request for statistics, which settle a hundred messages each: after that, the
#: oldest message may be one that has expired.
_STATS_CALLS = 10


class RedisQueues(RedisResource):
    @verb
    def create(self, project: str, queue: str, metadata: dict[str, Any]) -> Steps[bool]:
        yield from _require_format(metadata)
        created, unlisted = yield _CREATE(
            keys.of_queue(project, queue),
            *queue_settings(queue, metadata),
            now=self._now(),
            epoch=identity.new_epoch(),
            metadata=msgspec.json.encode(metadata),
        )
        if unlisted:
            yield from add_to_list(project, queue)
        return bool(created)

    @verb
    def get(self, project: str, queue: str) -> Steps[Queue | None]:
        metadata, created = yield _GET(keys.of_queue(project, queue))
        return _queue(queue, metadata, created) if metadata is not None else None

    @verb
    def update(self, project: str, queue: Queue, metadata: dict[str, Any]) -> Steps[bool]:
        yield from _require_format(metadata)
        outcome = yield _UPDATE(
            keys.of_queue(project, queue.name),
            *queue_settings(queue.name, metadata),
            now=self._now(),
            expected=queue.stored,
            metadata=msgspec.json.encode(metadata),
        )
        if outcome == b"grouped":
            raise errors.Conflict(
                why=f'The queue {queue.name} has messages: "_group_mode" can be changed while it '
                "has none."
            )
        if outcome == b"many":
            raise errors.Conflict(
                why=f'The queue {queue.name} has more than 20000 messages: "_max_bytes" can be '
                "set while it has no more than that. Delete some, or use another queue."
            )
        return bool(outcome == b"updated")

    @verb
    def delete(self, project: str, queue: str) -> Steps[None]:
        yield _DELETE(keys.of_queue(project, queue))
        yield from remove_from_list(project, queue)

    @verb
    def list(
        self,
        project: str,
        after: str,
        limit: int,
        wanted: Callable[[Queue], bool] | None,
        *,
        topics: bool = False,
    ) -> Steps[Page[Queue]]:
        found: list[Queue] = []
        step = _LIST_STEP if wanted else limit
        listing = keys.of_project(project).listing(topics=topics)
        while len(found) < limit:
            names = yield RedisCommand.page(listing, after, step)
            found_names = [name.decode() for name in names]
            # A queue that is being moved still exists, and is listed once.
            stored = yield [_read(project, name) for name in found_names]
            for after, (metadata, created) in zip(found_names, stored, strict=True):
                if metadata is None:
                    # Deleted by a process that died before it could update the list.
                    yield from remove_from_list(project, after)
                    continue
                queue = _queue(after, metadata, created)
                if wanted is None or wanted(queue):
                    found.append(queue)
                    if len(found) == limit:
                        break
            if len(names) < step:
                break
        return Page(items=found, marker=found[-1].name if found else "")

    @verb
    def count(self, project: str) -> Steps[int]:
        total = yield RedisCommand("ZCARD", keys.of_project(project).queues)
        return int(total)

    def stats(self, project: str, queue: str) -> Verb[Stats]:
        """The answer may be a moment old."""
        return Verb(self.client.reader, self._stats(project, queue))

    def _stats(self, project: str, queue: str) -> Steps[Stats]:
        counts: list[Any] = []
        for left in reversed(range(_STATS_CALLS)):
            now, epoch, *counts = yield _STATS(
                keys.of_queue(project, queue), now=self._now(), anyway=int(not left)
            )
            if epoch is None:
                return Stats()
            if counts:
                break
        total, claimed, delayed, records, *rest = counts
        ends = rest[decoding.COUNTERS :]
        oldest, newest = decoding.messages(now, epoch, ends) if ends else (None, None)
        return Stats(
            total=total,
            claimed=claimed,
            delayed=delayed,
            oldest=oldest,
            newest=newest,
            idempotency_records=records,
            counters=decoding.counters(total, rest[: decoding.COUNTERS]),
        )

    @verb
    def size(self, project: str, queue: str) -> Steps[QueueSize]:
        messages, size = yield _SIZE(keys.of_queue(project, queue))
        return QueueSize(messages, size)

    @verb
    def purge(self, project: str, queue: str) -> Steps[None]:
        yield _PURGE(keys.of_queue(project, queue))

    @verb
    def sweep(
        self, project: str, queue: str, move_exhausted: MoveExhausted | None = None
    ) -> Steps[int]:
        """Sweeps a queue a step; returns how much was settled.

        *move_exhausted*: moves what claims have left of messages that were claimed too often.
        """
        settled, has_exhausted = yield _SWEEP(keys.of_queue(project, queue), now=self._now())
        if has_exhausted and move_exhausted is not None:
            settled += yield move_exhausted(project, queue)
        return int(settled)


def add_to_list(project: str, queue: str) -> Steps[None]:
    """Adds a new queue to its project's list, which may be on another node.

    Until then the queue is marked as unlisted, and the next verb on it adds it: a crash
    in between hides it only until then.  For the same reason the verb does not fail when
    the store is unavailable now.
    """
    with contextlib.suppress(errors.Unavailable):
        yield RedisCommand("ZADD", keys.of_project(project).list_of(queue), 0, queue)
        yield RedisCommand("HDEL", keys.of_queue(project, queue).queue, "unlisted")


def remove_from_list(project: str, queue: str) -> Steps[None]:
    names = keys.of_project(project).list_of(queue)
    yield RedisCommand("ZREM", names, queue)
    metadata, _ = yield _read(project, queue)
    if metadata is not None:  # created again, and perhaps listed, before it was removed
        yield RedisCommand("ZADD", names, 0, queue)


def _read(project: str, queue: str) -> RedisCommand:
    """Returns the command that reads a queue as `queue_get` does, whatever its move lock."""
    return RedisCommand("HMGET", keys.of_queue(project, queue).queue, "metadata", "created")


def _queue(name: str, metadata: bytes, created: bytes) -> Queue:
    return Queue(
        name=name,
        metadata=msgspec.json.decode(metadata) if metadata != _EMPTY else {},
        stored=metadata,
        created=int(created),
    )


def queue_settings(queue: str, metadata: dict[str, Any]) -> list[str | int]:
    """Returns the fields that scripts read, from reserved attributes that are not falsy.

    Stock, whose metadata is taken over by its plugin and by imports, allows negative ones.
    """
    fields: list[str | int] = []
    for name, attribute in (
        ("ttl", "_default_message_ttl"),
        ("delay", "_default_message_delay"),
        ("size", "_max_messages_post_size"),
        ("max_claims", "_max_claim_count"),
        ("dead_ttl", "_dead_letter_queue_messages_ttl"),
        ("window", "_idempotency_window"),
        ("history", "_history_size"),
    ):
        value = metadata.get(attribute)
        if name == "history" and not rules.is_topic(queue):
            continue
        if isinstance(value, int) and value > 0:
            fields += (name, int(value))
    dead_queue = metadata.get("_dead_letter_queue")
    # Not the queue itself: a message could go round in it for ever.
    if isinstance(dead_queue, str) and dead_queue not in ("", queue):
        fields += ("dead_queue", dead_queue)
    if not rules.is_topic(queue) and metadata.get("_on_expiry") in metadata_rules.ON_EXPIRY:
        fields += ("on_expiry", metadata["_on_expiry"])
    least = metadata.get("_min_claim_ttl")
    if type(least) is int and 1 <= least <= rules.CLAIM_TTL_MIN:
        fields += ("min_claim_ttl", least)
    if not rules.is_topic(queue) and (order := _order(metadata)):
        fields += ("order", order)
    if not rules.is_topic(queue) and (limits := _limits(metadata, "dead_queue" in fields)):
        fields += ("limits", limits)
        if "/" in limits:
            fields += ("bytes", 0)
    if dedup := _dedup(metadata):
        fields += ("dedup", dedup)
    with contextlib.suppress(errors.BadRequest):
        delay = metadata.get("_redelivery_delay")
        if redelivery := retry_policies.redelivery_delay(delay, _DELAY_MAX):
            fields += ("redelivery", redelivery.stored())
    if metadata.get("_enable_encrypt_messages"):
        fields += ("sealed", 1)
    return fields


def _require_format(metadata: dict[str, Any]) -> Steps[None]:
    if order := _order(metadata):
        yield from format_gate.require(order_format(order), _ORDER)
    if metadata.get("_max_bytes") is not None:
        yield from format_gate.require(formats.BYTES, '"_max_bytes" is')


def order_format(order: str) -> int:
    """Returns what a store must need before a queue has that field `order`."""
    return formats.FAIR if order.startswith("0 fair") else formats.ORDER


def _order(metadata: dict[str, Any]) -> str:
    """Returns how many ranks a step of priority is worth, and how groups are claimed.

    Of those that take turns also how many messages of each may be held, 0: any number; how long
    each rests behind one that is taken, ms; and then lines with the name of each group that has a
    weight, and with that.
    """
    step = metadata_rules.priority_step(metadata.get("_priorities"))
    mode = metadata.get("_group_mode")
    if mode == "fair":
        most, rate = metadata.get("_group_concurrency"), metadata.get("_group_rate")
        weights: dict[str, int] = {}
        with contextlib.suppress(errors.BadRequest):
            weights = metadata_rules.group_weights(metadata.get("_group_weights"))
        rest = f"{1000 / rate:.17g}" if metadata_rules.is_group_rate(rate) else "0"
        lines = (f"={name}\n{weight}\n" for name, weight in weights.items())
        return f"0 fair {most if type(most) is int and most > 0 else 0} {rest}\n{''.join(lines)}"
    if mode not in metadata_rules.GROUP_MODES:
        mode = ""
    return f"{step} {mode or 'none'}" if step or mode else ""


def _limits(metadata: dict[str, Any], has_dead_queue: bool) -> str:
    """Returns messages at most, 0: any; what becomes of those beyond; what is paused.

    With a limit of bytes it follows the first, behind a slash.
    """
    overflow, paused = metadata.get("_overflow"), metadata.get("_paused")
    most, most_bytes = (
        value if type(value) is int and value > 0 else 0
        for value in map(metadata.get, ("_max_messages", "_max_bytes"))
    )
    if (
        overflow not in metadata_rules.OVERFLOWS
        or (overflow == "dead_letter" and not has_dead_queue)
        or not metadata_rules.may_drop(metadata)
    ):
        overflow = metadata_rules.OVERFLOWS[0]
    if paused not in metadata_rules.PAUSES:
        paused = ""
    if not (most or most_bytes or paused):
        return ""
    limit = f"{most}/{most_bytes}" if most_bytes else most
    return f"{limit} {overflow} {paused or 'nothing'}"


def _dedup(metadata: dict[str, Any]) -> str:
    """Returns the window in ms, and 1 if bodies identify messages; empty: the defaults."""
    window, by_content = metadata.get("_dedup_window"), metadata.get("_content_dedup") is True
    if type(window) is not int or not 1 <= window <= metadata_rules.DEDUP_WINDOW_MAX:
        if not by_content:
            return ""
        window = metadata_rules.DEDUP_WINDOW
    return f"{window * 1000} {by_content:d}"
