# SPDX-License-Identifier: Apache-2.0
"""The rows of the table of routes that are about subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from zaqar_redis import errors
from zaqar_redis.api import subscription_schemas as schemas
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.descriptions import about
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
        Annotated[schemas.SubscriptionChangeIn, about(anyOf=one_of)],
        "A subscription",
        texts=_TEXTS,
        ignored=_ignored,
    )
    confirmation = Body(schemas.ConfirmationIn, "A confirmation", texts=_NOT_CONFIRMED)
    replay = Body(schemas.ReplayIn, "A replay", default=schemas.ReplayIn())
    missing, taken = (errors.NotFound,), (errors.SubscriberTaken,)
    refused = (*taken, errors.TooManySubscriptions, errors.QuotaExceeded)
    every, of = f"{source}/subscriptions", subscriptions
    one = f"{every}/{{subscription}}"
    made, page = {201: schemas.CreatedSubscriptionOut}, {200: schemas.SubscriptionPageOut}
    show = partial(get, query=schemas.SubscriptionQuery, answers={200: schemas.SubscriptionOut})
    act = partial(post, problems=(*missing, errors.Conflict))
    replayed, tested = {200: schemas.ReplayOut}, {200: schemas.SubscriptionTestOut}
    query = schemas.SubscriptionListQuery
    yield post(every, of.create, "subscription:create", body=new, answers=made, problems=refused)
    yield get(every, of.list, "subscription:get_all", query=query, answers=page)
    yield show(one, of.get, "subscription:get", problems=missing)
    yield patch(one, of.update, "subscription:update", body=change, problems=(*missing, *taken))
    yield delete(one, of.delete, "subscription:delete")
    confirm = f"{one}/confirm", of.confirm, "subscription:confirm"
    yield put(*confirm, body=confirmation, problems=missing)
    yield act(f"{one}/replay", of.replay, "subscription:replay", body=replay, answers=replayed)
    yield act(f"{one}/test", of.test, "subscription:test", answers=tested)
