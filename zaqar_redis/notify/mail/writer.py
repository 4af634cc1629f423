# SPDX-License-Identifier: Apache-2.0
"""Writes mails: messages as JSON in a text, and what asks to confirm, by templates."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, localtime
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from zaqar_redis import errors
from zaqar_redis.notify import payloads
from zaqar_redis.notify.mail import addressing
from zaqar_redis.notify.mail.addressing import MailAddressing
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.target import Delivery
from zaqar_redis.records import Record

#: Bodies are encoded, so that servers without 8BITMIME take them.
_POLICY = policy.SMTP.clone(cte_type="7bit")
#: What a template may have.
_PARTS = frozenset(("topic", "body", "sender"))
#: Parameter of the link, and the field of the notice; in stock Zaqar's order.
_PARAMETERS = (
    ("Signature", "URL-Signature"),
    ("Methods", "URL-Methods"),
    ("Paths", "URL-Paths"),
    ("Project", "X-Project-ID"),
    ("Expires", "URL-Expires"),
    ("Url", "WSGISubscribeURL"),
)


class Mail(Record, frozen=True):
    """A mail, and its envelope."""

    #: the same in each attempt
    id: str
    sender: str
    #: with those of blind copies, which `message` does not show
    recipients: tuple[str, ...]
    blind: tuple[str, ...]
    message: EmailMessage


class MailTemplate(Record, frozen=True):
    topic: str
    body: str
    sender: Address


class MailWriter:
    def __init__(self, settings: MailSettings) -> None:
        """Raises BadConfiguration."""
        self._confirmation_url = settings.external_confirmation_url
        try:
            self.sender = addressing.named_address("smtp_sender", settings.smtp_sender)
        except errors.BadRequest as error:
            raise errors.BadConfiguration(f"[notification] smtp_sender: {error}") from error
        #: by the type of the notice
        self._templates = {
            "SubscriptionConfirmation": self._template(
                "subscription_confirmation_email_template",
                settings.subscription_confirmation_email_template,
            ),
            "UnsubscribeConfirmation": self._template(
                "unsubscribe_confirmation_email_template",
                settings.unsubscribe_confirmation_email_template,
            ),
        }

    def write(self, delivery: Delivery) -> Mail:
        """Raises BadRequest, and BadConfiguration when an option for it is missing."""
        where = addressing.parse(
            delivery.subscription.subscriber, delivery.options.raw, self.sender
        )
        notice = msgspec.json.decode(delivery.notice or b"{}", type=dict[str, Any])
        template = self._templates.get(notice.get("Message_Type", ""))
        if template is None:
            content = payloads.written(delivery).body
            subject = where.subject or f"Message in {delivery.source}"
            return _mail(delivery, where, where.sender, subject, content.decode())
        link = self._link(notice, delivery.source)
        body = template.body.format(delivery.source, delivery.project, link)
        return _mail(delivery, where, template.sender, template.topic, body)

    def _link(self, notice: Mapping[str, Any], queue: str) -> str:
        if not self._confirmation_url:
            raise errors.BadConfiguration(
                "The operator has not set [notification] external_confirmation_url, the page that "
                "links in mails lead to; so this mail address cannot be asked to confirm."
            )
        given = [(name, notice.get(field, "")) for name, field in _PARAMETERS]
        query = urlencode([*given, ("Queue", queue)], quote_via=quote, safe="/:")
        return f"{self._confirmation_url}?{query}"

    def _template(self, option: str, parts: Mapping[str, str]) -> MailTemplate:
        try:
            if unknown := set(parts) - _PARTS:
                raise ValueError(f"it has no {', '.join(sorted(unknown))}")
            found = MailTemplate(
                topic=addressing.text("topic", parts["topic"], addressing.SUBJECT_MAX),
                body=parts["body"],
                sender=addressing.named_address("sender", parts["sender"])
                if "sender" in parts
                else self.sender,
            )
            found.body.format("queue", "project", "link")
        except (KeyError, IndexError, ValueError, AttributeError, errors.BadRequest) as error:
            raise errors.BadConfiguration(
                f"[notification] {option}: {errors.reason(error)}; it needs topic and body, may "
                "have sender, and in the body braces are around 0, 1 and 2 only"
            ) from error
        return found


def _mail(
    delivery: Delivery, where: MailAddressing, sender: Address, subject: str, body: str
) -> Mail:
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    message["To"] = _shown(where.to)
    if where.cc:
        message["Cc"] = _shown(where.cc)
    message["Subject"] = subject
    message["Date"] = format_datetime(localtime())
    message["Message-ID"] = f"<{_identity(delivery)}@{sender.domain}>"
    # RFC 3834, 5: nobody's vacation program answers it.
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(body)
    return Mail(message["Message-ID"], sender.addr_spec, where.recipients, where.bcc, message)


def _shown(addresses: tuple[str, ...]) -> tuple[Address, ...]:
    return tuple(Address(addr_spec=each) for each in addresses)


def _identity(delivery: Delivery) -> str:
    """Returns what is the same in each attempt; a project or a queue cannot be read from it."""
    parts = (delivery.project, delivery.source, delivery.subscription.id, delivery.id)
    told = "\n".join(parts).encode() + b"\n" + delivery.notice
    return hashlib.sha256(told).hexdigest()[:40]
