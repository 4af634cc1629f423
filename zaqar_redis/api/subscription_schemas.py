# SPDX-License-Identifier: Apache-2.0
"""The shapes of the JSON documents of subscriptions."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from zaqar_redis import rules
from zaqar_redis.api.queries import Marker
from zaqar_redis.api.schemas import Document, Links, about

_TTL = {"minimum": rules.SUBSCRIPTION_TTL_MIN}
_Uri = Annotated[
    str, about("URI of a scheme that this service delivers to, e.g. https.", minLength=1)
]
_Seconds = Annotated[int | UnsetType, about("Seconds from now until it ends.", **_TTL)]
_OPTIONS = "What the kind of subscriber takes; unknown ones are kept."


class SubscriptionListQuery(Struct, frozen=True, kw_only=True):
    marker: Marker = None
    limit: Annotated[
        int | None,
        about(
            f"At most this many; else {rules.DEFAULT_PAGE}.",
            minimum=1,
            maximum="limits.max_subscriptions_per_page",
        ),
    ] = None


class SubscriptionIn(Struct):
    subscriber: _Uri
    ttl: Annotated[
        int | UnsetType,
        about("Seconds until it ends; else limits.default_subscription_ttl.", **_TTL),
    ] = UNSET
    options: Annotated[dict[str, Any], about(_OPTIONS)] = {}


class SubscriptionChangeIn(Struct):
    subscriber: _Uri | UnsetType = UNSET
    ttl: _Seconds = UNSET
    options: Annotated[
        dict[str, Any] | UnsetType,
        about("In the place of all that it has, except `secrets` that are not given."),
    ] = UNSET
    paused: Annotated[bool | UnsetType, about("Whether its messages wait.")] = UNSET


class ConfirmationIn(Struct):
    confirmed: bool


class CreatedSubscriptionOut(Document):
    subscription_id: str
    secret: Annotated[
        str | UnsetType,
        about("Signs what a webhook gets, if the request has named none.  It is shown once."),
    ] = UNSET


class SubscriptionOut(Document):
    id: str
    source: Annotated[str, about("The queue or topic.")]
    subscriber: str
    ttl: Annotated[int, about("Seconds.", minimum=1)]
    age: Annotated[int, about("Seconds since its TTL was set.", minimum=0)]
    options: Annotated[dict[str, Any], about("Secrets are shown as ***.")]
    confirmed: bool
    paused: Annotated[bool | UnsetType, about("Absent if it is not.")] = UNSET


class SubscriptionPageOut(Document):
    subscriptions: list[SubscriptionOut]
    links: Links
