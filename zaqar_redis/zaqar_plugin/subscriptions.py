# SPDX-License-Identifier: Apache-2.0
"""Subscriptions for stock Zaqar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis import errors
from zaqar_redis.records import Subscription, SubscriptionChanges
from zaqar_redis.service import subscription_options

_CHANGEABLE = ("subscriber", "ttl", "options")


class SubscriptionController(storage.Subscription):
    def list(
        self,
        queue: str,
        project: str | None = None,
        marker: str | None = None,
        limit: int = storage.DEFAULT_SUBSCRIPTIONS_PER_PAGE,
    ) -> Iterator[Any]:
        page = self.driver.run(
            project, queue, lambda store: store.subscriptions.list, marker or "", limit
        )
        yield map(_shown, page.items)
        yield page.marker or None  # None after an empty page: the notifier reads until then

    def get(self, queue: str, subscription_id: str, project: str | None = None) -> dict[str, Any]:
        found = self._find(queue, subscription_id, project)
        if found is None:
            raise storage_errors.SubscriptionDoesNotExist(subscription_id)
        return _shown(found)

    def get_with_subscriber(
        self, queue: str, subscriber: str, project: str | None = None
    ) -> dict[str, Any] | None:
        found = self.driver.run(project, queue, lambda store: store.subscriptions.find, subscriber)
        return None if found is None else _shown(found)

    def create(
        self,
        queue: str,
        subscriber: str,
        ttl: int,
        options: dict[str, Any] | None,
        project: str | None = None,
    ) -> str | None:
        return self.driver.run(
            project,
            queue,
            lambda store: store.subscriptions.create,
            subscriber,
            ttl=ttl,
            options=options or {},
        )

    def update(
        self, queue: str, subscription_id: str, project: str | None = None, **kwargs: Any
    ) -> None:
        changes = {name: kwargs[name] for name in _CHANGEABLE if kwargs.get(name) is not None}
        if not changes:
            raise AssertionError(f"one of {', '.join(_CHANGEABLE)} must be given")
        self._changed(queue, subscription_id, project, **changes)

    def confirm(
        self,
        queue: str,
        subscription_id: str,
        project: str | None = None,
        confirmed: bool = True,
    ) -> None:
        self._changed(queue, subscription_id, project, confirmed=bool(confirmed))

    def exists(self, queue: str, subscription_id: str, project: str | None = None) -> bool:
        return self._find(queue, subscription_id, project) is not None

    def delete(self, queue: str, subscription_id: str, project: str | None = None) -> None:
        self.driver.run(project, queue, lambda store: store.subscriptions.delete, subscription_id)

    def _find(self, queue: str, id: str, project: str | None) -> Subscription | None:
        return self.driver.run(project, queue, lambda store: store.subscriptions.get, id)

    def _changed(self, queue: str, id: str, project: str | None, **changes: Any) -> None:
        try:
            done = self.driver.run(
                project,
                queue,
                lambda store: store.subscriptions.update,
                id,
                SubscriptionChanges(**changes),
            )
        except errors.SubscriberTaken:
            raise storage_errors.SubscriptionAlreadyExists from None
        if not done:
            raise storage_errors.SubscriptionDoesNotExist(id)


def _shown(subscription: Subscription) -> dict[str, Any]:
    return {
        "id": subscription.id,
        "source": subscription.source,
        "subscriber": subscription.subscriber,
        "ttl": subscription.ttl,
        "age": subscription.age,
        "options": subscription_options.as_given(subscription.options),
        "confirmed": subscription.confirmed,
    }
