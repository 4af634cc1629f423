# SPDX-License-Identifier: Apache-2.0
"""Operations on queues."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

import msgspec

from zaqar_redis import errors, metadata_rules, rules
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import Page, PartialPage, Queue, QueueSize, Stats
from zaqar_redis.service import patches
from zaqar_redis.service.quota_enforcer import QuotaEnforcer
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver

#: How often a patch is tried when others change the same queue meanwhile.
_PATCH_TRIES = 10


class QueueService(ComposedVerbs):
    def __init__(
        self,
        driver: Driver,
        limits: rules.Limits,
        can_encrypt: bool,
        quotas: QuotaEnforcer | None = None,
    ) -> None:
        """*quotas*: None: the number of queues is not limited."""
        self._store = driver.queues
        # A single store is read, or it is not.
        self._pooled = driver.queues if isinstance(driver, PooledDriver) else None
        self._limits = limits
        self._can_encrypt = can_encrypt
        self._quotas = quotas

    @verb
    def create(self, project: str, queue: str, metadata: dict[str, Any]) -> Steps[bool]:
        """Creates a queue; returns False, and changes nothing, when it exists.

        Raises QuotaExceeded.
        """
        self._check(queue, metadata)
        quotas, is_new = self._quotas, False
        meter = quotas.meter(project) if quotas is not None and quotas.limits_storage else None
        if meter is not None:
            is_new = yield from meter.add(queue)
        created: bool | None = None
        try:
            created = yield self._store.create(project, queue, metadata)
            return bool(created)
        finally:
            if meter is not None and created is None:
                meter.take_back(queue, 0, 0, is_new=is_new)

    @verb
    def get(self, project: str, queue: str) -> Steps[dict[str, Any]]:
        """Returns the metadata with defaults; only defaults when the queue does not exist."""
        found: Queue | None = yield self._store.get(project, queue)
        return self.shown(queue, found.metadata if found else {})

    def find(self, project: str, queue: str) -> Awaitable[Queue | None]:
        """Returns the queue with the metadata that it was given, or None."""
        return self._store.get(project, queue)

    @verb
    def differing(self, project: str, queue: str, metadata: dict[str, Any]) -> Steps[list[str]]:
        """Returns the names in *metadata* whose values are not those of the queue."""
        if not metadata:
            return []
        found: Queue | None = yield self._store.get(project, queue)
        stored = found.metadata if found else {}
        shown = self.shown(queue, stored)  # has defaults in place of what is empty
        # As JSON: Python's 1 and True are equal.
        encode = partial(msgspec.json.encode, order="deterministic")
        return [
            name
            for name, value in metadata.items()
            if encode(value) not in (encode(stored.get(name)), encode(shown.get(name)))
        ]

    @verb
    def patch(
        self, project: str, queue: str, changes: Sequence[patches.PatchOperation]
    ) -> Steps[dict[str, Any]]:
        """Returns the changed metadata.  Raises NotFound, Conflict, BadRequest."""
        for _ in range(_PATCH_TRIES):
            found: Queue | None = yield self._store.get(project, queue)
            if found is None:
                raise errors.NotFound(why=f"The {rules.described(queue)} does not exist.")
            metadata = patches.apply(found.metadata, changes)
            self._check(queue, metadata)
            if (yield self._store.update(project, found, metadata)):
                return self.shown(queue, metadata)
        raise errors.Conflict(why=f"The {rules.described(queue)} is being changed by others.")

    def delete(self, project: str, queue: str) -> Awaitable[None]:
        return self._store.delete(project, queue)

    @verb
    def list(
        self,
        project: str,
        marker: str,
        limit: int | None,
        name: str,
        metadata: dict[str, str],
        *,
        partial: bool = False,
        topics: bool = False,
    ) -> Steps[PartialPage]:
        """Returns queues whose name contains *name* and whose metadata has *metadata*.

        *topics*: those that are topics, in the place of all others.  *partial*: also while stores
        of pools are unavailable; of queues in these only names are known, so that none of them has
        *metadata*.
        """

        def wanted(queue: Queue) -> bool:
            return name in queue.name.removeprefix(rules.TOPIC_PREFIX) and all(
                key in queue.metadata and _equals(queue.metadata[key], text)
                for key, text in metadata.items()
            )

        most = rules.limit(limit, self._limits.max_queues_per_page)
        filtered = bool(name or metadata)
        chosen = wanted if filtered else None
        if partial and self._pooled is not None:
            found: PartialPage = yield self._pooled.list_partially(project, marker, most, chosen)
            return found
        page: Page[Queue] = yield self._store.list(project, marker, most, chosen, topics=topics)
        return PartialPage(page.items, page.marker)

    def count(self, project: str) -> Awaitable[int]:
        return self._store.count(project)

    def stats(self, project: str, queue: str) -> Awaitable[Stats]:
        return self._store.stats(project, queue)

    def size(self, project: str, queue: str) -> Awaitable[QueueSize]:
        return self._store.size(project, queue)

    def purge(self, project: str, queue: str) -> Awaitable[None]:
        return self._store.purge(project, queue)

    def shown(self, queue: str, metadata: dict[str, Any]) -> dict[str, Any]:
        """Returns the metadata, with defaults for reserved attributes that are not set.

        One without a default is left out: stock shows null, for which python-zaqarclient adds the
        attribute that its user sets, and then removes it in the same request.
        """
        limits = self._limits
        defaults = {
            "_max_messages_post_size": limits.max_messages_post_size,
            "_default_message_ttl": limits.default_message_ttl,
            "_default_message_delay": limits.default_message_delay,
            "_enable_encrypt_messages": False,
        }
        names = (
            metadata_rules.RESERVED_OF_TOPICS if rules.is_topic(queue) else metadata_rules.RESERVED
        )
        shown = metadata | {name: metadata.get(name) or defaults.get(name) for name in names}
        return {
            name: value for name, value in shown.items() if value is not None or name not in names
        }

    def _check(self, queue: str, metadata: dict[str, Any]) -> None:
        check = (
            metadata_rules.topic_metadata
            if rules.is_topic(queue)
            else metadata_rules.queue_metadata
        )
        check(metadata, self._limits, self._can_encrypt)
        for name in ("_on_expiry", "_overflow"):
            if metadata.get(name) == "dead_letter" and metadata["_dead_letter_queue"] == queue:
                raise errors.BadRequest(
                    why=f'"{name}": "dead_letter" needs another queue as "_dead_letter_queue".'
                )
        try:
            size = len(msgspec.json.encode(metadata))
        except (OverflowError, RecursionError):
            raise errors.BadBody(why="The metadata holds an integer that is too large.") from None
        most = self._limits.max_queue_metadata
        if size > most:
            raise errors.BadRequest(why=f"Queue metadata may be at most {most} bytes.")


def _equals(value: Any, text: str) -> bool:
    """Returns whether *value* equals the *text* of a filter: JSON unless *value* is a string."""
    if isinstance(value, str):
        return value == text
    try:
        wanted = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    # Python's 1 and True are equal.
    return isinstance(wanted, bool) == isinstance(value, bool) and bool(wanted == value)
