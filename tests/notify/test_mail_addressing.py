# SPDX-License-Identifier: Apache-2.0
"""From whom and to whom mails go, and what a subscription cannot make of them."""

from __future__ import annotations

from email.headerregistry import Address
from typing import Any

import pytest

from zaqar_redis import errors
from zaqar_redis.notify.mail import addressing

SENDER = Address(addr_spec="service@example.org")


@pytest.mark.parametrize(
    ("uri", "recipients", "subject"),
    [
        ("mailto:ann@example.org", ["ann@example.org"], ""),
        ("mailto:ann@example.org,bob@example.org", ["ann@example.org", "bob@example.org"], ""),
        ("mailto:ann+zaqar@example.org?subject=a+b", ["ann+zaqar@example.org"], "a+b"),
        ("mailto:ann%2Bx@example.org?Subject=caf%C3%A9%20now", ["ann+x@example.org"], "café now"),
        ("mailto:?to=ann@example.org", ["ann@example.org"], ""),
        (
            "mailto:a@b.example?cc=c@d.example&bcc=e@f.example",
            ["a@b.example", "c@d.example", "e@f.example"],
            "",
        ),
        ("MAILTO:ann@localhost", ["ann@localhost"], ""),
        ("mailto:ann@example.org,ann@example.org?cc=ann@example.org", ["ann@example.org"], ""),
    ],
)
def test_uri_has_its_recipients_and_its_subject(
    uri: str, recipients: list[str], subject: str
) -> None:
    found = addressing.parse(uri, {}, SENDER)
    assert ([*found.recipients], found.subject, found.sender) == (recipients, subject, SENDER)


def test_subject_of_the_uri_counts_before_the_option() -> None:
    options = {"subject": "option"}
    assert addressing.parse("mailto:a@b.c", options, SENDER).subject == "option"
    assert addressing.parse("mailto:a@b.c?subject=uri", options, SENDER).subject == "uri"


def test_long_subject_of_the_uri_is_refused_and_named() -> None:
    with pytest.raises(errors.BadRequest, match=r'"subscriber\?subject" must be a text of at most'):
        addressing.parse(f"mailto:a@b.c?subject={'x' * 256}", {}, SENDER)


@pytest.mark.parametrize(
    ("given", "name", "address"),
    [
        ("ann@example.org", "", "ann@example.org"),
        ("Ann Other <ann@example.org>", "Ann Other", "ann@example.org"),
        ('"Other, Ann" <ann@example.org>', "Other, Ann", "ann@example.org"),
        ("Zoë <ann@example.org>", "Zoë", "ann@example.org"),
    ],
)
def test_sender_may_have_a_name(given: str, name: str, address: str) -> None:
    found = addressing.parse("mailto:a@b.c", {"from": given}, SENDER).sender
    assert (found.display_name, found.addr_spec) == (name, address)


@pytest.mark.parametrize(
    "uri",
    [
        *("mailto:", "mailto:nobody", "mailto:a@b@c", "mailto:a b@example.org"),
        *("mailto:a%0Ab@example.org", "mailto:a%0D%0ABcc:x@example.org", "mailto:a@[127.0.0.1]"),
        *("mailto:a@-b.example", "mailto:zoë@example.org", "mailto:a@example.org?body=text"),
        "mailto:a@example.org?reply-to=b@example.org",
        "mailto:a@example.org?subject=a%0D%0ABcc:%20b@example.org",
        *("mailto:a@example.org?subject=%ff", "mailto:a@example.org?subject=" + 300 * "x"),
        "mailto:?bcc=a@example.org",
        "mailto:" + ",".join(f"a{number}@example.org" for number in range(11)),
        *("mailto:" + 65 * "a" + "@example.org", "mailto:a@" + ".".join(5 * [60 * "a"])),
        "mailto:a%00@example.org",
    ],
)
def test_bad_uri_is_refused_by_name(uri: str) -> None:
    with pytest.raises(errors.BadRequest, match=r'"subscriber(\?subject)?"'):
        addressing.parse(uri, {}, SENDER)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("from", ""), ("from", 1), ("from", None), ("from", "Ann")),
        *(("from", "Ann <ann@example.org>, bob@example.org"), ("from", "Ann\n <ann@example.org>")),
        ("from", "ann@example.org\r\nBcc: bob@example.org"),
        *(("from", 400 * "x" + " <ann@example.org>"), ("subject", ["a", "list"])),
        *(("subject", "two\nlines"), ("subject", "a\u2028b"), ("subject", 256 * "x")),
    ],
)
def test_bad_option_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(errors.BadRequest, match=f'"options.{field}"'):
        addressing.parse("mailto:a@example.org", {field: value}, SENDER)
