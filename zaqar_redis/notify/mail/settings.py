# SPDX-License-Identifier: Apache-2.0
"""The settings of mails; names are stock Zaqar's where it has the option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from zaqar_redis import rules

_FIELDS = (
    "A dictionary of topic, body and sender. In the body {0} is the queue, {1} the project, {2} "
    "the link. A value with a comma is in double quotes. Without a sender it is smtp_sender."
)


def _confirmation() -> dict[str, str]:
    return {
        "topic": "Please confirm your subscription",
        "body": "This address was subscribed to the queue {0} of the project {1}. To confirm "
        "that open this link: {2}",
    }


def _unsubscription() -> dict[str, str]:
    return {
        "topic": "Your subscription has ended",
        "body": "This address gets no more messages of the queue {0} of the project {1}. To "
        "subscribe again open this link: {2}",
    }


class MailSettings(Struct, frozen=True):
    smtp_mode: Annotated[
        Literal["third_part", "self_local"],
        "How mails to subscribers are sent: third_part: by smtp_command; self_local: to the mail "
        "server smtp_host.",
    ] = "third_part"
    smtp_command: Annotated[
        str,
        "Command that sends the mail which it reads from standard input to the recipients in its "
        "header. It is started without a shell, and killed when an attempt has taken too long.",
    ] = "/usr/sbin/sendmail -t -oi"
    smtp_host: Annotated[str, "Mail server, for smtp_mode self_local."] = "localhost"
    smtp_port: Annotated[
        int,
        Meta(ge=0, le=65535),
        "Its port; 0: 465 with smtp_tls implicit, 587 with starttls, 25 with none.",
    ] = 0
    smtp_tls: Annotated[
        Literal["implicit", "starttls", "none"],
        "TLS with the mail server: implicit: from the beginning; starttls: after the command "
        "STARTTLS, without which nothing is sent; none: user, password and mails can be read on "
        "the way.",
    ] = "implicit"
    smtp_ca_file: Annotated[
        str | None,
        "File with certificates of authorities, one of which has signed that of the mail server. "
        "Default: those of the system.",
    ] = None
    smtp_insecure: Annotated[
        bool, "Accept every certificate of the mail server: anybody can pretend to be it."
    ] = False
    smtp_user_name: Annotated[
        str | None, "User at the mail server. Default: mails are sent without a login."
    ] = None
    smtp_user_password: Annotated[str | None, rules.SECRET, "Password of that user."] = None
    smtp_connections: Annotated[
        int,
        Meta(ge=1, le=100),
        "Connections to the mail server, or running commands, of one process at most. A connection "
        "is kept for further mails for a while.",
    ] = 4
    smtp_sender: Annotated[
        str,
        "From of mails whose subscription has no option from: an address, or NAME <address>.",
    ] = "Zaqar Notifications <no-reply@localhost>"
    external_confirmation_url: Annotated[
        str | None,
        "Page that confirms subscriptions of mail addresses; the links in mails lead there, with "
        "the parameters Signature, Methods, Paths, Project, Expires, Url and Queue. Without it no "
        "mail can ask for confirmation.",
    ] = None
    subscription_confirmation_email_template: Annotated[
        Mapping[str, str], f"The mail that asks to confirm a subscription. {_FIELDS}"
    ] = field(default_factory=_confirmation)
    unsubscribe_confirmation_email_template: Annotated[
        Mapping[str, str], f"The mail that a subscription has ended. {_FIELDS}"
    ] = field(default_factory=_unsubscription)
