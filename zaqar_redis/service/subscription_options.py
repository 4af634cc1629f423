# SPDX-License-Identifier: Apache-2.0
"""The options of subscriptions: what they may be, and what deliveries go by."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from zaqar_redis import errors
from zaqar_redis.records import Record


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


#: What takes the place of a secret that is shown.
HIDDEN = "***"


def parse(options: Mapping[str, Any]) -> SubscriptionOptions:
    """Raises BadRequest, naming the option, for a bad value.  Unknown options stay in `raw`."""
    own = {name: options[name] for name in SubscriptionOptions.__struct_fields__ if name in options}
    try:
        return msgspec.convert({**own, "raw": dict(options)}, SubscriptionOptions)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(why=f'The value of "options" is wrong: {error}.') from None


def shown(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options as their owner sees them: with `HIDDEN` for each secret."""
    if "secrets" not in options:
        return dict(options)
    return {**options, "secrets": [HIDDEN] * len(options["secrets"])}


def with_stored_secrets(options: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns new options with the secrets that they keep of those that are stored.

    All of them when the new ones name none; each `HIDDEN` is the one in its place.
    """
    known = stored.get("secrets", [])
    given = options.get("secrets", known)
    if not given or not isinstance(given, list):
        return dict(options)
    kept = [
        known[at] if secret == HIDDEN and at < len(known) else secret
        for at, secret in enumerate(given)
    ]
    return {**options, "secrets": kept}


def new_secret() -> str:
    """Returns a key to sign webhooks with, as Standard Webhooks writes them."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
