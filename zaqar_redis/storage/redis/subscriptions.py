# SPDX-License-Identifier: Apache-2.0
"""Subscriptions in Redis."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from zaqar_redis import clock, errors, rules
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.records import Page, Subscription, SubscriptionChanges
from zaqar_redis.storage.redis.resource import RedisResource

_CREATE = Script("subscription_create")
_GET = Script("subscription_get")
_FIND = Script("subscription_find")
_LIST = Script("subscription_list")
_UPDATE = Script("subscription_update")
_DELETE = Script("subscription_delete")
_PURGE = Script("subscription_purge")

#: What `subscription_create` returns.
_NO_QUEUE, _TOO_MANY = -1, -2


class RedisSubscriptions(RedisResource):
    @verb
    def create(
        self,
        project: str,
        queue: str,
        subscriber: str,
        *,
        ttl: int,
        options: dict[str, Any],
        paused: bool = False,
        delivers: bool = False,
        most: int | None = None,
    ) -> Steps[str | None]:
        id = str(uuid.uuid4())
        created = yield _CREATE(
            keys.of_queue(project, queue),
            now=self._now(),
            id=id,
            subscriber=subscriber,
            ttl=ttl,
            options=msgspec.json.encode(options),
            paused=int(paused),
            delivers=int(delivers),
            most="" if most is None else most,
        )
        if created == _TOO_MANY:
            raise errors.TooManySubscriptions(queue=rules.described(queue), most=most)
        if created == _NO_QUEUE:
            raise errors.NotFound(why=f"The queue {queue} does not exist: create it first.")
        return id if created else None

    @verb
    def get(self, project: str, queue: str, id: str) -> Steps[Subscription | None]:
        return (yield from self._load(project, queue, id))

    @verb
    def find(self, project: str, queue: str, subscriber: str) -> Steps[Subscription | None]:
        id = yield _FIND(keys.of_queue(project, queue), subscriber=subscriber)
        return (yield from self._load(project, queue, id.decode())) if id is not None else None

    @verb
    def list(self, project: str, queue: str, after: str, limit: int) -> Steps[Page[Subscription]]:
        now, *flat = yield _LIST(
            keys.of_queue(project, queue), now=self._now(), after=after, limit=limit
        )
        found = [
            _subscription(queue, id.decode(), now, ends, record)
            for id, ends, record in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        ]
        return Page(items=found, marker=found[-1].id if found else "")

    @verb
    def update(
        self, project: str, queue: str, id: str, changes: SubscriptionChanges
    ) -> Steps[bool]:
        ttl, options = changes.ttl, changes.options
        outcome = yield _UPDATE(
            keys.of_queue(project, queue),
            now=self._now(),
            id=id,
            subscriber=changes.subscriber or "",
            ttl="" if ttl is None else ttl,
            options="" if options is None else msgspec.json.encode(options),
            confirmed="" if changes.confirmed is None else int(changes.confirmed),
            paused="" if changes.paused is None else int(changes.paused),
        )
        if outcome == b"taken":
            raise errors.SubscriberTaken(subscriber=changes.subscriber)
        return bool(outcome == b"updated")

    @verb
    def delete(self, project: str, queue: str, id: str) -> Steps[None]:
        yield _DELETE(keys.of_queue(project, queue), now=self._now(), id=id)

    @verb
    def purge(self, project: str, queue: str) -> Steps[None]:
        yield _PURGE(keys.of_queue(project, queue))

    def _load(self, project: str, queue: str, id: str) -> Steps[Subscription | None]:
        now, *found = yield _GET(keys.of_queue(project, queue), now=self._now(), id=id)
        return _subscription(queue, id, now, *found) if found else None


def _subscription(queue: str, id: str, now: int, ends: int, record: bytes) -> Subscription:
    head, options, subscriber = record.split(b"\n", 2)
    ttl, confirmed, *paused = head.split(b" ")
    return Subscription(
        id=id,
        source=queue,
        subscriber=subscriber.decode(),
        ttl=int(ttl),
        age=clock.age(now, ends - int(ttl) * 1000),
        options=msgspec.json.decode(options),
        confirmed=confirmed == b"1",
        paused=bool(paused),
    )
