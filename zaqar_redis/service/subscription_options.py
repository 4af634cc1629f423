# SPDX-License-Identifier: Apache-2.0
"""The options of subscriptions: what they may be, and what deliveries go by."""

from __future__ import annotations

import base64
import binascii
import contextlib
import difflib
import itertools
import re
import secrets as random_secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec

from zaqar_redis import errors, retry_policies, rules
from zaqar_redis.records import Record
from zaqar_redis.retry_policies import DeliveryRetryPolicy, retry_policy
from zaqar_redis.service.subscription_filters import SubscriptionFilter, compile_filter

Format = Literal["zaqar", "cloudevents", "cloudevents-binary"]

#: Bytes of all options as JSON: as much as the metadata of a queue by default.  A notifier has the
#: options of all subscriptions of its queues in memory.
OPTIONS_BYTES_MAX = 64 * 1024
#: With messages of 256 KiB that is a request of 25 MiB; many servers accept less.
BATCH_MAX = 100
#: Requests at a time to one subscriber: a slow one holds so many connections of a notifier.
CONCURRENCY_MAX = 64
#: Messages a second: one in a quarter of an hour, and more than a notifier delivers.
RATE_MIN, RATE_MAX = 0.001, 1_000_000
#: Seconds: an attempt occupies a connection for as long.
TIMEOUT_MIN, TIMEOUT_MAX = 0.1, 60.0
#: Standard Webhooks: bytes of a key.
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
#: Standard Webhooks: two are valid at once while they rotate.
SECRETS_MAX = 2

#: Names that are compared with those of options: each takes some 0.1 ms.
_COMPARED_MAX = 32
#: Of `difflib`: "headers" is like "post_headers".
_SIMILARITY = 0.7

#: Stands for a secret where options are shown, and for the stored one in an update.
HIDDEN = "***"
_SECRET_PREFIX = "whsec_"  # noqa: S105  what a secret begins with

#: What the service notes in stored options: it has made the secrets, or the trust.  Clients can
#: neither set these nor see them.
_GENERATED, TRUST_GRANTED = "secrets_generated", "trust_granted"

#: RFC 9110: token; and visible ASCII characters with blanks and tabs between them.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
#: Set by the client that delivers, by the signature and the format: others would contradict them.
_RESERVED_HEADER = re.compile(
    r"connection|content-length|expect|host|keep-alive|te|traceparent|trailer|transfer-encoding"
    r"|upgrade|(ce|proxy|webhook)-.*",
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


class SubscriptionOptions(Record, frozen=True):
    """The options of a subscription, checked, with defaults."""

    #: all but those that are null, for the target: stock Zaqar's ``post_data``, ``from`` ...
    raw: Mapping[str, Any] = {}
    #: None: the queue's, else the default
    retry_policy: DeliveryRetryPolicy | None = None
    #: None: the subscription wants all messages
    filter: SubscriptionFilter | None = None
    #: how a message is written
    format: Format = "zaqar"
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


def parse(options: Mapping[str, Any]) -> SubscriptionOptions:
    """Returns the options checked.  Raises BadRequest that names the option and its limit.

    null is as good as absent.  API: unknown options are accepted, for targets that know them.
    """
    _check_size(options)
    given = {name: value for name, value in options.items() if value is not None}
    known = {name: read(given[name]) for name, read in _READ.items() if name in given}
    for name, check in _CHECKS.items():
        if name in given:
            check(name, given[name])
    known["retry_policy"] = retry_policy(given.get("_retry_policy"))
    parsed = SubscriptionOptions(raw=given, **known)
    if parsed.format == "cloudevents-binary" and parsed.batch > 1:
        raise _bad("batch", 'at most 1 with the format "cloudevents-binary"')
    return parsed


def parse_stored(options: Mapping[str, Any]) -> SubscriptionOptions:
    """Returns options that another release may have stored, which knew other rules.

    One that cannot be read is as good as absent.  Raises BadRequest for those of `_DECISIVE`.
    """
    with contextlib.suppress(errors.BadRequest):
        return parse(options)
    given = {name: value for name, value in options.items() if value is not None}
    readable: dict[str, Any] = {}
    for name in sorted(NAMES & given.keys(), key=lambda name: (name not in _DECISIVE, name)):
        try:
            parse(readable | {name: given[name]})
        except errors.BadRequest:
            if name in _DECISIVE:
                raise
        else:
            readable[name] = given[name]
    return msgspec.structs.replace(parse(readable), raw=given)


def ignored(options: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names that have no effect as options: those of something else, and those that
    look like the name of an option, but are none."""
    for name in itertools.islice(options, _COMPARED_MAX):
        if name in _ELSEWHERE or (
            name not in NAMES and difflib.get_close_matches(name, NAMES, 1, _SIMILARITY)
        ):
            yield name
    yield from retry_policies.ignored(options)


def new_secret() -> str:
    """Returns a new key for signatures."""
    key = random_secrets.token_bytes(SECRET_BYTES_MIN)
    return _SECRET_PREFIX + base64.b64encode(key).decode()


def with_generated_secret(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options with a new key for signatures, unless they have some."""
    if "secrets" in options:
        return dict(options)
    return {**options, "secrets": [new_secret()], _GENERATED: True}


def as_given(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options without what the service has made, but for the id of a trust: API."""
    made = {_GENERATED, TRUST_GRANTED}
    if stored.get(_GENERATED) is True:
        made.add("secrets")
    return {name: value for name, value in stored.items() if name not in made}


def shown(stored: Mapping[str, Any], *, detailed: bool) -> dict[str, Any]:
    """Returns options as clients see them: as they were given, with ``***`` for each secret.

    *detailed*: with a secret that the service has made, too.
    """
    found = as_given(stored)
    if "secrets" in (stored if detailed else found):
        found["secrets"] = [HIDDEN for _ in _stored_secrets(stored)]
    return found


def with_stored_secrets(options: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of an update, with the secrets that it does not name.

    Without ``secrets`` the stored ones stay, and whether the service has made them.  The first
    ``***`` stands for the newest of them, the second for the one before: ``[new, "***"]`` rotates.
    One that stands for none is left as it is, and `parse` refuses it.
    """
    filled = {name: value for name, value in options.items() if name != _GENERATED}
    given = options.get("secrets")
    if given is None:
        filled.pop("secrets", None)
        if kept := _stored_secrets(stored):
            filled["secrets"] = kept
            filled |= {_GENERATED: True} if stored.get(_GENERATED) is True else {}
        return filled
    known = iter(_stored_secrets(stored))
    if isinstance(given, list):
        filled["secrets"] = [next(known, HIDDEN) if each == HIDDEN else each for each in given]
    return filled


def effective(
    subscription: DeliveryRetryPolicy | None, queue: DeliveryRetryPolicy | None
) -> DeliveryRetryPolicy:
    """Returns the policy that a subscription's deliveries go by.

    API: its own, unless one of the two policies says ``ignore_subscription_override``; then that
    of the queue.  Where there is none, the default.
    """
    ignored = any(
        policy and policy.ignore_subscription_override for policy in (subscription, queue)
    )
    chosen = queue if ignored else subscription or queue
    return chosen or DeliveryRetryPolicy()


def _stored_secrets(options: Mapping[str, Any]) -> list[Any]:
    """Subscriptions of stock Zaqar may have anything there."""
    stored = options.get("secrets")
    return stored if isinstance(stored, list) else []


def _bad(name: str, must_be: str) -> errors.BadRequest:
    return errors.BadRequest(why=f'The value of "{name}" in "options" must be {must_be}.')


def _check_size(options: Mapping[str, Any]) -> None:
    if not rules.nested_within(options, rules.NESTING_MAX):
        raise errors.BadRequest(why=f'"options" may be nested at most {rules.NESTING_MAX} deep.')
    if len(msgspec.json.encode(options)) > OPTIONS_BYTES_MAX:
        raise errors.BadRequest(why=f'"options" may have at most {OPTIONS_BYTES_MAX} bytes.')


def _format(value: object) -> Format:
    if value not in get_args(Format):
        raise _bad("format", f"one of {', '.join(get_args(Format))}")
    return value  # type: ignore[return-value]


def _integer(name: str, most: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise _bad(name, f"an integer between 1 and {most}")
        return value

    return read


def _ordered(value: object) -> bool:
    if not isinstance(value, bool):
        raise _bad("ordered", "a boolean")
    return value


def _is_number(value: object, least: float, most: float) -> bool:
    return type(value) in (int, float) and least <= value <= most  # type: ignore[operator]


def _rate(value: Any) -> float:
    if not _is_number(value, RATE_MIN, RATE_MAX) and not _is_number(value, 0, 0):
        raise _bad("rate", f"0, or a number of messages a second from {RATE_MIN} to {RATE_MAX}")
    return float(value)


def _timeout(value: Any) -> float:
    if not _is_number(value, TIMEOUT_MIN, TIMEOUT_MAX):
        raise _bad("timeout", f"a number between {TIMEOUT_MIN} and {TIMEOUT_MAX} seconds")
    return float(value)


def _dead_letter_queue(value: object) -> str:
    if not isinstance(value, str) or not rules.is_queue_name(value):
        raise _bad(
            "dead_letter_queue",
            f"a queue name: 1 to {rules.QUEUE_NAME_MAX} ASCII letters, digits, underscores, dashes "
            "and dots",
        )
    return value


def _secrets(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= SECRETS_MAX:
        raise _bad("secrets", f"a list of 1 to {SECRETS_MAX} keys")
    if HIDDEN in value:
        raise _bad("secrets", f"new keys; there are fewer stored ones than {HIDDEN} stands for")
    for each in value:
        if not isinstance(each, str) or not _is_secret(each):
            raise _bad(
                "secrets",
                f"a list of texts: {_SECRET_PREFIX} and {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} "
                "bytes in base64",
            )
    return tuple(value)


def _is_secret(text: str) -> bool:
    try:
        key = base64.b64decode(text.removeprefix(_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return False
    return text.startswith(_SECRET_PREFIX) and SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX


def check_headers(name: str, value: object) -> None:
    """Raises BadRequest unless the option is an object of headers that a request may have."""
    if not isinstance(value, dict):
        raise _bad(name, "an object of texts")
    for header, text in value.items():
        if not _HEADER_NAME.fullmatch(header):
            raise _bad(name, f"an object of header names, which {header[:64]!r} is not")
        if _RESERVED_HEADER.fullmatch(header):
            raise _bad(name, f"without {header}, which the notifier sets itself")
        if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text):
            raise _bad(
                name, f"an object of texts; that of {header} must have printable ASCII characters"
            )


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise _bad(name, "a text")


def _check_line(name: str, value: object) -> None:
    if not isinstance(value, str) or _CONTROL.search(value):
        raise _bad(name, "a text without line breaks and control characters")


_READ: dict[str, Callable[[Any], Any]] = {
    "filter": compile_filter,
    "format": _format,
    "batch": _integer("batch", BATCH_MAX),
    "ordered": _ordered,
    "concurrency": _integer("concurrency", CONCURRENCY_MAX),
    "rate": _rate,
    "timeout": _timeout,
    "dead_letter_queue": _dead_letter_queue,
    "secrets": _secrets,
}
#: Options that targets read from `SubscriptionOptions.raw`.
_CHECKS: dict[str, Callable[[str, object], None]] = {
    "post_headers": check_headers,
    "post_data": _check_text,
    "from": _check_line,
    "subject": _check_line,
    "trust_id": _check_line,
}
#: Options that are checked.
NAMES = frozenset({*_READ, *_CHECKS, "_retry_policy"})
#: Without these a subscriber would get what it does not want, unsigned, or in another form.
_DECISIVE = ("filter", "secrets", "format")
#: Fields of the subscription itself, and what only the service sets.
_ELSEWHERE = frozenset({"subscriber", "ttl", "paused", _GENERATED, TRUST_GRANTED})
