# SPDX-License-Identifier: Apache-2.0
"""Operations on subscriptions.  Whoever serves a kind of subscriber sends messages to it."""

from __future__ import annotations

from typing import Any

from zaqar_redis import errors, rules
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import Page, Subscription
from zaqar_redis.storage.contract import Driver, Live, Subscriptions


class SubscriptionService(ComposedVerbs):
    def __init__(self, driver: Driver, limits: rules.Limits) -> None:
        self._driver = driver
        self._limits = limits

    @property
    def live(self) -> Live:
        """Sends messages as they are posted.  Raises BadRequest when the store cannot."""
        if self._driver.live is None:
            raise errors.BadRequest(why="The store of this service cannot push messages.")
        return self._driver.live

    @property
    def _store(self) -> Subscriptions:
        if self._driver.subscriptions is None:
            raise errors.BadRequest(why="The store of this service has no subscriptions.")
        return self._driver.subscriptions

    @verb
    def create(
        self,
        project: str,
        queue: str,
        subscriber: str,
        *,
        ttl: int | None,
        options: dict[str, Any],
        longest: int | None = None,
    ) -> Steps[str | None]:
        """Subscribes; returns the id, or None when the subscriber has subscribed already.

        *longest*: seconds after which it ends in any case.  API: creates the queue if it does
        not exist.
        """
        seconds = rules.subscription_ttl(ttl, self._limits)
        if longest is not None:
            seconds = min(seconds, longest)
        yield self._driver.queues.create(project, queue, {})
        id: str | None = yield self._store.create(
            project, queue, subscriber, ttl=seconds, options=options
        )
        return id

    @verb
    def get(self, project: str, queue: str, id: str) -> Steps[Subscription]:
        """Raises NotFound."""
        found: Subscription | None = yield self._store.get(project, queue, id)
        if found is None:
            raise errors.NotFound(
                why=f"Subscription {id} for {rules.described(queue)} does not exist."
            )
        return found

    @verb
    def list(
        self, project: str, queue: str, marker: str | None, limit: int | None
    ) -> Steps[Page[Subscription]]:
        most = rules.limit(limit, self._limits.max_subscriptions_per_page)
        page: Page[Subscription] = yield self._store.list(project, queue, marker or "", most)
        return page

    @verb
    def delete(self, project: str, queue: str, id: str) -> Steps[None]:
        yield self._store.delete(project, queue, id)

    @verb
    def purge(self, project: str, queue: str) -> Steps[None]:
        """Deletes all subscriptions of a queue, and all deliveries to them."""
        if self._driver.subscriptions is not None:
            yield self._store.purge(project, queue)
