# SPDX-License-Identifier: Apache-2.0
"""The rows of the table of routes that are about subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from zaqar_redis import errors
from zaqar_redis.api import schemas as docs
from zaqar_redis.api import subscription_schemas as schemas
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.rest.subscriptions import SubscriptionHandlers
from zaqar_redis.api.routes import ApiRoute, delete, get, patch, post, put
from zaqar_redis.service import subscription_options

#: API: the texts of stock Zaqar's errors, which its clients' tests look for.
_TEXTS = {
    "$": "Subscriptions must be a dict.",
    "$.ttl": "TTL must be an integer.",
    "$.options": "Options must be a dict.",
}
_NO_SUBSCRIBER = dict.fromkeys(("", "subscriber"), "Missing parameter subscriber in body.")
_NOT_CONFIRMED = dict.fromkeys(
    ("", "confirmed", "$.confirmed"), "The 'confirmed' should be boolean."
)


def _ignored(document: schemas.SubscriptionIn | schemas.SubscriptionChangeIn) -> Iterator[str]:
    return subscription_options.ignored(document.options or {})


def subscription_routes(subscriptions: SubscriptionHandlers, source: str) -> Iterator[ApiRoute]:
    """Yields the routes of subscriptions to what is at the path *source*."""
    new = Body(
        schemas.SubscriptionIn, "A subscription", texts=_TEXTS | _NO_SUBSCRIBER, ignored=_ignored
    )
    one_of = [{"required": [name]} for name in schemas.SubscriptionChangeIn.__struct_fields__]
    change = Body(
        Annotated[schemas.SubscriptionChangeIn, docs.about(anyOf=one_of)],
        "A subscription",
        texts=_TEXTS,
        ignored=_ignored,
    )
    confirmation = Body(schemas.ConfirmationIn, "A confirmation", texts=_NOT_CONFIRMED)
    missing, taken = (errors.NotFound,), (errors.SubscriberTaken,)
    collection = f"{source}/subscriptions"
    subscription = f"{collection}/{{subscription}}"
    yield post(
        collection,
        subscriptions.create,
        "subscription:create",
        body=new,
        answers={201: schemas.CreatedSubscriptionOut},
        problems=(*taken, errors.TooManySubscriptions, errors.QuotaExceeded),
    )
    yield get(
        collection,
        subscriptions.list,
        "subscription:get_all",
        query=schemas.SubscriptionListQuery,
        answers={200: schemas.SubscriptionPageOut},
    )
    yield get(
        subscription,
        subscriptions.get,
        "subscription:get",
        query=schemas.SubscriptionQuery,
        answers={200: schemas.SubscriptionOut},
        problems=missing,
    )
    yield patch(
        subscription,
        subscriptions.update,
        "subscription:update",
        body=change,
        problems=(*missing, *taken),
    )
    yield delete(subscription, subscriptions.delete, "subscription:delete")
    yield put(
        f"{subscription}/confirm",
        subscriptions.confirm,
        "subscription:confirm",
        body=confirmation,
        problems=missing,
    )
    yield post(
        f"{subscription}/replay",
        subscriptions.replay,
        "subscription:replay",
        body=Body(schemas.ReplayIn, "A replay", default=schemas.ReplayIn()),
        answers={200: schemas.ReplayOut},
        problems=(*missing, errors.Conflict),
    )
    yield post(
        f"{subscription}/test",
        subscriptions.test,
        "subscription:test",
        answers={200: schemas.SubscriptionTestOut},
        problems=(*missing, errors.Conflict),
    )
