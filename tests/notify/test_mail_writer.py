# SPDX-License-Identifier: Apache-2.0
"""What is in mails."""

from __future__ import annotations

import email
import email.policy
import json
from email.message import EmailMessage
from typing import Any

import msgspec
import pytest

from tests.notify.deliveries import delivery
from zaqar_redis import errors
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.mail.writer import MailWriter
from zaqar_redis.notify.target import Delivery

ANN = "mailto:ann@example.org"
#: As `SubscriptionConfirmation` has it.
NOTICE = {
    "Message_Type": "SubscriptionConfirmation",
    "Message": "You have chosen to subscribe to the queue: orders",
    "URL-Signature": "0a1b",
    "URL-Methods": "PUT",
    "URL-Paths": "/v2/queues/orders/subscriptions/7/confirm",
    "X-Project-ID": "blue",
    "URL-Expires": "2030-01-31T12:00:00",
    "WSGISubscribeURL": "https://zaqar.example/v2/queues/orders/subscriptions/7/confirm",
    "SubscribeBody": {"confirmed": True},
}
PAGE = "https://pages.example/confirm"


def _written(given: Delivery, **settings: Any) -> EmailMessage:
    """Returns the mail as its reader gets it."""
    sent = MailWriter(MailSettings(**settings)).write(given).message.as_bytes()
    return email.message_from_bytes(sent, EmailMessage, policy=email.policy.default)


def test_mail_has_messages_as_json_and_its_header_fields() -> None:
    raw = {"from": "Ann Other <other@example.org>", "subject": "Grüße"}
    mail = _written(delivery(ANN, raw, bodies=({"n": "hé"},)))
    assert json.loads(mail.get_content()) == {
        "body": {"n": "hé"},
        "ttl": 300,
        "Message_Type": "Notification",
        "queue_name": "orders",
    }
    assert mail.get_content_type() == "text/plain"
    assert mail["From"] == "Ann Other <other@example.org>"
    assert (mail["To"], mail["Subject"]) == ("ann@example.org", "Grüße")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Date"].datetime is not None


def test_one_mail_has_several_messages() -> None:
    content = json.loads(_written(delivery(ANN, bodies=(1, 2, 3))).get_content())
    assert [each["body"] for each in content["messages"]] == [1, 2, 3]


def test_mail_without_options_has_the_sender_and_a_subject_of_the_service() -> None:
    mail = _written(delivery(ANN), smtp_sender="Queues <queues@example.org>")
    assert (mail["From"], mail["Subject"]) == ("Queues <queues@example.org>", "Message in orders")


def test_message_id_is_the_same_in_each_attempt_and_another_for_another_delivery() -> None:
    first = delivery(ANN)
    second = msgspec.structs.replace(first, id="subscription/message-1")
    ids = [_written(each)["Message-ID"] for each in (first, first, second)]
    assert ids[0] == ids[1] != ids[2]
    assert "orders" not in ids[0]


def test_long_bodies_have_lines_that_servers_take() -> None:
    given = delivery(ANN, bodies=("é" * 5000,))
    mail = MailWriter(MailSettings()).write(given).message
    lines = mail.as_bytes().split(b"\r\n")
    assert max(map(len, lines)) <= 78
    assert all(line.isascii() for line in lines)


def test_copies_are_shown_and_blind_copies_are_not() -> None:
    mail = MailWriter(MailSettings()).write(delivery(ANN + "?cc=cy@example.org&bcc=bo@example.org"))
    assert mail.recipients == ("ann@example.org", "cy@example.org", "bo@example.org")
    assert mail.message["Cc"] == "cy@example.org"
    assert b"bo@example.org" not in mail.message.as_bytes()


def test_request_to_confirm_becomes_a_mail_with_the_link_of_the_template() -> None:
    template = {"topic": "Confirm", "body": "{1}/{0}: {2}", "sender": "Page <page@example.org>"}
    mail = _written(
        delivery(ANN + "?subject=mine", notice=NOTICE),
        external_confirmation_url=PAGE,
        subscription_confirmation_email_template=template,
    )
    assert (mail["From"], mail["Subject"]) == ("Page <page@example.org>", "Confirm")
    assert mail.get_content().strip() == (
        f"blue/orders: {PAGE}?Signature=0a1b&Methods=PUT"
        "&Paths=/v2/queues/orders/subscriptions/7/confirm&Project=blue"
        "&Expires=2030-01-31T12:00:00"
        "&Url=https://zaqar.example/v2/queues/orders/subscriptions/7/confirm&Queue=orders"
    )


def test_end_of_a_subscription_has_a_template_of_its_own() -> None:
    notice = NOTICE | {"Message_Type": "UnsubscribeConfirmation"}
    mail = _written(delivery(ANN, notice=notice), external_confirmation_url=PAGE)
    assert mail["Subject"] == "Your subscription has ended"
    assert mail["From"] == MailSettings().smtp_sender


def test_values_in_links_are_encoded() -> None:
    notice = NOTICE | {"X-Project-ID": "a&b=c d\r\n"}
    mail = _written(delivery(ANN, notice=notice), external_confirmation_url=PAGE)
    assert "&Project=a%26b%3Dc%20d%0D%0A&" in mail.get_content()


def test_request_to_confirm_without_a_page_is_refused() -> None:
    with pytest.raises(errors.BadConfiguration, match="external_confirmation_url"):
        _written(delivery(ANN, notice=NOTICE))


def test_other_notices_are_sent_as_they_are() -> None:
    mail = _written(delivery(ANN, notice={"Message_Type": "Test", "n": 1}))
    assert json.loads(mail.get_content()) == {"Message_Type": "Test", "n": 1}


@pytest.mark.parametrize(
    "template",
    [
        *({"topic": "a"}, {"body": "a"}, {"topic": "a", "body": "{3}"}),
        *({"topic": "a", "body": "{"}, {"topic": "a", "body": "{name}"}),
        *({"topic": "a", "body": "{0.name}"}, {"topic": "a\nb", "body": "a"}),
        *({"topic": "a", "body": "a", "sender": "nobody"},),
        *({"topic": "a", "body": "a", "colour": "red"},),
    ],
)
def test_bad_template_is_refused_at_the_start(template: dict[str, str]) -> None:
    for kind in ("subscription_confirmation", "unsubscribe_confirmation"):
        option = f"{kind}_email_template"
        settings = msgspec.structs.replace(MailSettings(), **{option: template})
        with pytest.raises(errors.BadConfiguration, match=option):
            MailWriter(settings)


def test_bad_sender_of_the_service_is_refused_at_the_start() -> None:
    with pytest.raises(errors.BadConfiguration, match="smtp_sender"):
        MailWriter(MailSettings(smtp_sender="nobody"))
