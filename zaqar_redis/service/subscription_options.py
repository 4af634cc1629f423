# SPDX-License-Identifier: Apache-2.0
"""The options of subscriptions: what they may be, and what deliveries go by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from zaqar_redis.records import Record
from zaqar_redis.service.subscription_filters import SubscriptionFilter


class DeliveryRetryPolicy(Record, frozen=True):
    """When an attempt to deliver follows another; names and defaults are stock Zaqar's."""

    retries_with_no_delay: int = 3
    minimum_delay_retries: int = 3
    #: seconds, as the next
    minimum_delay: int = 5
    maximum_delay: int = 30
    maximum_delay_retries: int = 3
    retry_backoff_function: Literal["linear", "arithmetic", "geometric", "exponential"] = "linear"
    ignore_subscription_override: bool = False


class SubscriptionOptions(Record, frozen=True):
    """The options of a subscription, checked, with defaults."""

    #: as they are stored, for the target: stock Zaqar's ``post_data``, ``from``, ``trust_id`` ...
    raw: Mapping[str, Any] = {}
    #: None: the queue's, else the default
    retry_policy: DeliveryRetryPolicy | None = None
    #: how a message is written
    format: Literal["zaqar", "cloudevents", "cloudevents-binary"] = "zaqar"
    #: messages in one request at most; 1: each by itself, not in a list
    batch: int = 1
    #: a message waits until the one before it was delivered, or given up
    ordered: bool = False
    #: requests at a time
    concurrency: int = 8
    #: messages a second; 0: without limit
    rate: float = 0.0
    #: seconds for an attempt
    timeout: float = 10.0
    #: of the same project, for messages that were given up; empty: none
    dead_letter_queue: str = ""
    #: keys that sign webhooks, ``whsec_`` and base64; the first is the newest
    secrets: tuple[str, ...] = ()
    filter: SubscriptionFilter | None = None


def parse(raw: Mapping[str, Any]) -> SubscriptionOptions:
    return SubscriptionOptions(
        raw=raw,
        **{key: raw[key] for key in SubscriptionOptions.__struct_fields__ if key in raw},
    )


def retry_policy(raw: Mapping[str, Any]) -> DeliveryRetryPolicy:
    return DeliveryRetryPolicy(**raw)


def effective(
    own: DeliveryRetryPolicy | None, queue: DeliveryRetryPolicy | None
) -> DeliveryRetryPolicy:
    return own or queue or DeliveryRetryPolicy()
