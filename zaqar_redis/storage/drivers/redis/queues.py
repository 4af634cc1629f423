# SPDX-License-Identifier: Apache-2.0
"""Queues in Redis."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.records import Page, Queue, Stats
from zaqar_redis.storage.drivers.redis import identity, reading

_CREATE = Script("queue_create")
_GET = Script("queue_get")
_UPDATE = Script("queue_update")
_DELETE = Script("queue_delete")
_STATS = Script("queue_stats")
_PURGE = Script("queue_purge")
_SWEEP = Script("queue_sweep")
_LISTED = Script("queue_listed")
_LIST = Script("project_list")
_COUNT = Script("project_count")
_ADD = Script("project_add")
_REMOVE = Script("project_remove")

#: Names read at once when only some are wanted: few trips, and small ones.
_LIST_STEP = 100
_EMPTY = msgspec.json.encode({})


class Queues:
    def __init__(self, client: Any, now: Clock) -> None:
        self.client = client
        self._now = now

    @verb
    def create(self, project: str, queue: str, metadata: dict[str, Any]) -> Steps[bool]:
        made, unlisted = yield _CREATE(
            keys.of_queue(project, queue),
            *settings_of(queue, metadata),
            now=self._now(),
            epoch=identity.new_epoch(),
            metadata=msgspec.json.encode(metadata),
        )
        if unlisted:
            yield from enlist(project, queue)
        return bool(made)

    @verb
    def get(self, project: str, queue: str) -> Steps[Queue | None]:
        metadata, created = yield _GET(keys.of_queue(project, queue), peek=0)
        return _queue(queue, metadata, created) if metadata is not None else None

    @verb
    def update(self, project: str, queue: Queue, metadata: dict[str, Any]) -> Steps[bool]:
        outcome = yield _UPDATE(
            keys.of_queue(project, queue.name),
            *settings_of(queue.name, metadata),
            expected=queue.stored,
            metadata=msgspec.json.encode(metadata),
        )
        return bool(outcome == b"updated")

    @verb
    def delete(self, project: str, queue: str) -> Steps[None]:
        yield _DELETE(keys.of_queue(project, queue))
        yield from unlist(project, queue)

    @verb
    def list(
        self, project: str, after: str, limit: int, wanted: Callable[[Queue], bool] | None
    ) -> Steps[Page[Queue]]:
        found: list[Queue] = []
        step = _LIST_STEP if wanted else limit
        while len(found) < limit:
            names = yield _LIST(keys.of_project(project), after=after, limit=step)
            found_names = [name.decode() for name in names]
            # A queue that moves is no less there: whoever lists it sees it once.
            stored = yield [_GET(keys.of_queue(project, name), peek=1) for name in found_names]
            for after, (metadata, created) in zip(found_names, stored, strict=True):
                if metadata is None:
                    # Deleted by a process that died before it could say so here.
                    yield from unlist(project, after)
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
        total = yield _COUNT(keys.of_project(project))
        return int(total)

    @verb
    def stats(self, project: str, queue: str) -> Steps[Stats]:
        counts: list[Any] = []
        while not counts:
            now, epoch, *counts = yield _STATS(keys.of_queue(project, queue), now=self._now())
            if epoch is None:
                return Stats()
        total, claimed, records, *ends = counts
        oldest, newest = reading.messages(now, epoch, ends) if ends else (None, None)
        return Stats(
            total=total, claimed=claimed, oldest=oldest, newest=newest, idempotency_records=records
        )

    @verb
    def purge(self, project: str, queue: str) -> Steps[None]:
        yield _PURGE(keys.of_queue(project, queue))

    @verb
    def names(self, project: str, after: str, limit: int) -> Steps[Sequence[str]]:
        """Of the project's list behind the name *after*, whether there is such a queue or not."""
        names = yield _LIST(keys.of_project(project), after=after, limit=limit)
        return [name.decode() for name in names]

    @verb
    def list_again(self, project: str, queue: str) -> Steps[None]:
        yield from enlist(project, queue)

    @verb
    def unlist(self, project: str, queue: str) -> Steps[None]:
        yield from unlist(project, queue)

    @verb
    def sweep(self, project: str, queue: str) -> Steps[int]:
        settled = yield _SWEEP(keys.of_queue(project, queue), now=self._now())
        return int(settled)


def enlist(project: str, queue: str) -> Steps[None]:
    """Put a new queue into its project's list, which may be on another node.

    The queue remembers that it is not listed until this is done, and whoever
    touches it next does it: a crash in between hides it only until then.  For the
    same reason a store that is away now is no reason to call the whole verb failed.
    """
    with contextlib.suppress(errors.Unavailable):
        yield _ADD(keys.of_project(project), name=queue)
        yield _LISTED(keys.of_queue(project, queue))


def unlist(project: str, queue: str) -> Steps[None]:
    yield _REMOVE(keys.of_project(project), name=queue)
    metadata, _ = yield _GET(keys.of_queue(project, queue), peek=1)
    if metadata is not None:  # made again, and perhaps listed, before we took it out
        yield _ADD(keys.of_project(project), name=queue)


def _queue(name: str, metadata: bytes, created: bytes) -> Queue:
    return Queue(
        name=name,
        metadata=msgspec.json.decode(metadata) if metadata != _EMPTY else {},
        stored=metadata,
        created=int(created),
    )


def settings_of(queue: str, metadata: dict[str, Any]) -> list[str | int]:
    """What the scripts go by, out of reserved attributes; falsy ones do not count."""
    fields: list[str | int] = []
    for name, attribute in (
        ("ttl", "_default_message_ttl"),
        ("delay", "_default_message_delay"),
        ("size", "_max_messages_post_size"),
        ("max_claims", "_max_claim_count"),
        ("dead_ttl", "_dead_letter_queue_messages_ttl"),
        ("window", "_idempotency_window"),
    ):
        value = metadata.get(attribute)
        if isinstance(value, int) and value:
            fields += (name, int(value))
    dead_queue = metadata.get("_dead_letter_queue")
    # Not its own: a message could go round in it for ever.
    if isinstance(dead_queue, str) and dead_queue not in ("", queue):
        fields += ("dead_queue", dead_queue)
    if metadata.get("_enable_encrypt_messages"):
        fields += ("sealed", 1)
    return fields
