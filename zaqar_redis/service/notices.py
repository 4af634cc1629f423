# SPDX-License-Identifier: Apache-2.0
"""Requests to confirm a subscription, and to take it up again: documents for subscribers.

Whoever gets one can answer it without other credentials: it carries a signature for the path that
confirms this subscription, which expires with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from zaqar_redis import rules
from zaqar_redis.auth.signed_urls import UrlSigner
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import Subscription

#: `SubscriptionDeliveries.send_notice`
SendNotice = Callable[[str, str, str, bytes, int], Awaitable[bool]]


class SubscriptionNotices(ComposedVerbs):
    def __init__(self, signer: UrlSigner, send: SendNotice) -> None:
        self._signer = signer
        self._send_notice = send

    def check(self, project: str) -> None:
        """Raises BadRequest when nobody could confirm a subscription in the project."""
        self._signer.check_signable(project)

    @verb
    def ask_to_confirm(self, project: str, subscription: Subscription) -> Steps[None]:
        """API: `SubscriptionConfirmation`."""
        text = f"You have chosen to subscribe to the {_named(subscription)}"
        yield self._send(project, subscription, "SubscriptionConfirmation", text)

    @verb
    def tell_unsubscribed(self, project: str, subscription: Subscription) -> Steps[None]:
        """API: `UnsubscribeConfirmation`."""
        text = (
            f"You have unsubscribed successfully to the {_named(subscription)}, "
            "you can resubscribe it by using confirmed=True."
        )
        yield self._send(project, subscription, "UnsubscribeConfirmation", text)

    def _send(
        self, project: str, subscription: Subscription, kind: str, text: str
    ) -> Awaitable[bool]:
        left = max(1, subscription.ttl - subscription.age)
        kinds, name = _place(subscription.source)
        path = f"/v2/{kinds}/{name}/subscriptions/{subscription.id}/confirm"
        signed = self._signer.sign(project, path, "PUT", left)
        # API: texts where pre-signed URLs have lists.
        document = {
            "Message_Type": kind,
            "Message": text,
            "URL-Signature": signed.signature,
            "URL-Methods": ",".join(signed.methods),
            "URL-Paths": ",".join(signed.paths),
            "X-Project-ID": project,
            "URL-Expires": signed.expires,
            "SubscribeBody": {"confirmed": True},
            "UnsubscribeBody": {"confirmed": False},
            "queue_name": name,
        }
        return self._send_notice(
            project, subscription.source, subscription.id, msgspec.json.encode(document), left
        )


def _place(source: str) -> tuple[str, str]:
    """Returns the collection that a source is shown in, and its name there."""
    name = source.removeprefix(rules.TOPIC_PREFIX)
    return ("queues" if name == source else "topics"), name


def _named(subscription: Subscription) -> str:
    kinds, name = _place(subscription.source)
    return f"{kinds[:-1]}: {name}"
