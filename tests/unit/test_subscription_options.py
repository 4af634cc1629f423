# SPDX-License-Identifier: Apache-2.0
"""Options of subscriptions: each limit at its bounds, and secrets that are shown and kept."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from zaqar_redis import errors
from zaqar_redis.retry_policies import DeliveryRetryPolicy
from zaqar_redis.service import subscription_options
from zaqar_redis.service.subscription_options import SubscriptionOptions, parse, parse_stored


def _secret(length: int = 24) -> str:
    return "whsec_" + base64.b64encode(bytes(range(length))).decode()


FIRST, SECOND, THIRD = (_secret(length) for length in (24, 32, 64))


def _deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_no_options_are_the_defaults() -> None:
    assert parse({}) == SubscriptionOptions()


def test_stored_options_that_cannot_be_read_leave_the_others() -> None:
    given = {"batch": 1000, "rate": "newer", "_retry_policy": {"minimum_delay": -1}}
    kept = {"timeout": 60, "secrets": [FIRST], "format": "cloudevents-binary", "colour": "red"}
    stored = parse_stored(given | kept)
    assert stored == SubscriptionOptions(
        raw=given | kept, timeout=60.0, secrets=(FIRST,), format="cloudevents-binary"
    )
    both = parse_stored({"batch": 10, "format": "cloudevents-binary"})
    assert (both.batch, both.format) == (1, "cloudevents-binary")


@pytest.mark.parametrize("name", ["filter", "secrets", "format"])
def test_stored_option_that_decides_what_is_sent_must_be_readable(name: str) -> None:
    with pytest.raises(errors.BadRequest, match=name):
        parse_stored({name: {"newer": 1}, "timeout": 60})


def test_options_of_all_kinds_are_read() -> None:
    given = {
        "_retry_policy": {"minimum_delay": 1},
        "filter": {"attributes": {"kind": ["order"]}},
        "format": "cloudevents",
        "batch": 100,
        "ordered": True,
        "concurrency": 64,
        "rate": 2,
        "timeout": 60,
        "dead_letter_queue": "failed",
        "secrets": [FIRST, THIRD],
        "post_headers": {"X-Colour": "red"},
        "colour": {"not": "ours"},
    }
    parsed = parse(given)
    assert parsed.filter is not None
    assert parsed == SubscriptionOptions(
        raw=given,
        retry_policy=DeliveryRetryPolicy(minimum_delay=1),
        filter=parsed.filter,
        format="cloudevents",
        batch=100,
        ordered=True,
        concurrency=64,
        rate=2.0,
        timeout=60.0,
        dead_letter_queue="failed",
        secrets=(FIRST, THIRD),
    )


def test_null_is_as_good_as_absent() -> None:
    given = dict.fromkeys(["_retry_policy", "filter", "batch", "secrets", "post_headers", "from"])
    assert parse(given) == SubscriptionOptions()


ACCEPTED: list[tuple[str, list[object]]] = [
    ("_retry_policy", [{}, {"minimum_delay": 20}]),
    ("format", ["zaqar", "cloudevents", "cloudevents-binary"]),
    ("batch", [1, 100]),
    ("concurrency", [1, 64]),
    ("rate", [0, 0.0, 0.001, 1_000_000]),
    ("timeout", [0.1, 1, 60]),
    ("secrets", [[FIRST], [FIRST, SECOND]]),
    ("post_headers", [{}, {"Content-Type": "text/plain", "X-Empty": "", "X-A": "b\tc d"}]),
    ("post_data", ["", 'a\n"$zaqar_message$"']),
    ("from", ["Zaqar <zaqar@example.org>"]),
    ("subject", ["Grüße"]),
    ("trust_id", ["5e8c"]),
]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in ACCEPTED for value in values]
)
def test_value_within_the_limits_is_accepted(name: str, value: object) -> None:
    parse({name: value})


REFUSED: list[tuple[str, list[object], str]] = [
    ("_retry_policy", [{"minimum_delay": -1}, []], "minimum_delay|object"),
    ("filter", [{}, {"attributes": {"a": "b"}}, []], "filter"),
    ("format", ["", "json", 1, ["zaqar"]], "one of zaqar, cloudevents, cloudevents-binary"),
    ("batch", [0, 101, -1, True, "1", 1.0], "between 1 and 100"),
    ("ordered", [0, 1, "true"], "a boolean"),
    ("concurrency", [0, 65, True, 1.5], "between 1 and 64"),
    ("rate", [-1, 0.0009, 1_000_001, True, "1"], "0.001 to 1000000"),
    ("timeout", [0, 0.09, 60.1, True, "1"], "between 0.1 and 60.0 seconds"),
    ("dead_letter_queue", ["", "a b", "a/b", "a" * 65, 1], "1 to 64 ASCII letters"),
    ("secrets", [[], [FIRST] * 3, FIRST, {"a": FIRST}], "1 to 2 keys"),
    ("secrets", [[_secret(23)], [_secret(65)], [1], [""]], "24 to 64 bytes"),
    ("secrets", [["whsec_"], [FIRST + "*"], [FIRST[6:]], ["whsec_ö"]], "base64"),
    ("secrets", [["***"], [FIRST, "***"]], "fewer stored ones"),
    ("post_headers", [[], "a: b"], "an object of texts"),
    ("post_headers", [{"": "a"}, {"a b": "c"}, {"a:": "c"}, {"ä": "c"}], "header names"),
    ("post_headers", [{"a": 1}, {"a": None}, {"a": "b\r\nc: d"}, {"a": "ä"}], "printable ASCII"),
    ("post_headers", [{"Host": "a"}, {"content-length": "1"}, {"TE": "a"}], "sets itself"),
    (
        "post_headers",
        [{"Transfer-Encoding": "a"}, {"Webhook-Id": "a"}, {"CE-id": "a"}],
        "sets itself",
    ),
    ("post_data", [1, {}, []], "a text"),
    ("from", ["a\nb", "a\rb", "a\0", 1], "without line breaks"),
    ("subject", ["a\nBcc: b", "a\u2028b", ["a"]], "without line breaks"),
    ("trust_id", ["a\nb", 1], "without line breaks"),
]


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [(name, value, limit) for name, values, limit in REFUSED for value in values],
)
def test_other_value_is_refused_with_name_and_limit(name: str, value: object, limit: str) -> None:
    with pytest.raises(errors.BadRequest, match=limit) as raised:
        parse({name: value})
    assert name in raised.value.text


def test_batch_cannot_be_a_binary_cloud_event() -> None:
    parse({"format": "cloudevents-binary", "batch": 1})
    with pytest.raises(errors.BadRequest, match=r'"batch".*at most 1.*cloudevents-binary'):
        parse({"format": "cloudevents-binary", "batch": 2})


def test_options_are_bounded_as_a_whole() -> None:
    parse({"post_data": "a" * (65536 - len('{"post_data":""}'))})
    with pytest.raises(errors.BadRequest, match=r'"options".*65536 bytes'):
        parse({"post_data": "a" * 65536})


def test_depth_of_options_is_bounded() -> None:
    parse(_deep(100))
    with pytest.raises(errors.BadRequest, match=r'"options".*100 deep'):
        parse(_deep(101))


def test_new_secrets_are_valid_and_differ() -> None:
    one, other = subscription_options.new_secret(), subscription_options.new_secret()
    assert parse({"secrets": [one, other]}).secrets == (one, other)
    assert one != other


@pytest.mark.parametrize("detailed", [False, True])
def test_secrets_that_were_given_are_hidden(detailed: bool) -> None:
    stored = {"secrets": [FIRST, SECOND], "batch": 2}
    expected = {"secrets": ["***", "***"], "batch": 2}
    assert subscription_options.shown(stored, detailed=detailed) == expected
    assert stored["secrets"] == [FIRST, SECOND]
    assert subscription_options.shown({"batch": 2}, detailed=detailed) == {"batch": 2}
    # Stock's clients may have stored anything under that name.
    assert subscription_options.shown({"secrets": FIRST}, detailed=detailed) == {"secrets": []}


def test_generated_secret_is_hidden_with_details_only() -> None:
    stored = subscription_options.with_generated_secret({"batch": 2, "trust_granted": True})
    assert len(parse(stored).secrets) == 1
    assert subscription_options.shown(stored, detailed=False) == {"batch": 2}
    assert subscription_options.shown(stored, detailed=True) == {"batch": 2, "secrets": ["***"]}


def test_secrets_are_generated_once() -> None:
    stored = subscription_options.with_generated_secret({})
    kept = subscription_options.with_stored_secrets({"batch": 2}, stored)
    assert kept == stored | {"batch": 2}
    assert subscription_options.with_generated_secret(kept) == kept
    given = subscription_options.with_stored_secrets({"secrets": ["***"]}, stored)
    assert given == {"secrets": stored["secrets"]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [FIRST, SECOND]),
        ({"secrets": None}, [FIRST, SECOND]),
        ({"secrets": ["***", "***"]}, [FIRST, SECOND]),
        ({"secrets": ["***"]}, [FIRST]),
        ({"secrets": [THIRD, "***"]}, [THIRD, FIRST]),
        ({"secrets": [THIRD]}, [THIRD]),
    ],
)
def test_update_keeps_the_secrets_that_it_does_not_name(
    given: dict[str, Any], expected: list[str]
) -> None:
    filled = subscription_options.with_stored_secrets(given, {"secrets": [FIRST, SECOND]})
    assert parse(filled).secrets == tuple(expected)


def test_update_without_stored_secrets_adds_none() -> None:
    assert subscription_options.with_stored_secrets({"batch": 2}, {}) == {"batch": 2}


@pytest.mark.parametrize("stored", [{}, {"secrets": [FIRST]}, {"secrets": "of stock"}])
def test_update_that_names_more_secrets_than_are_stored_is_refused(stored: dict[str, Any]) -> None:
    filled = subscription_options.with_stored_secrets({"secrets": ["***", "***"]}, stored)
    with pytest.raises(errors.BadRequest, match="fewer stored ones"):
        parse(filled)
