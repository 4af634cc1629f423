# SPDX-License-Identifier: Apache-2.0
"""The target of ``mailto:``."""

from __future__ import annotations

import asyncio

from zaqar_redis import errors
from zaqar_redis.notify.mail import addressing
from zaqar_redis.notify.mail.command import CommandTransport
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.mail.smtp import SmtpTransport
from zaqar_redis.notify.mail.writer import MailWriter
from zaqar_redis.notify.target import Delivery, Outcome, Result
from zaqar_redis.notify.target_context import TargetContext
from zaqar_redis.service.subscription_options import SubscriptionOptions


class MailTarget:
    #: see `Target.internal`
    internal = False

    def __init__(self, settings: MailSettings) -> None:
        """Raises BadConfiguration."""
        self._writer = MailWriter(settings)
        transport = SmtpTransport if settings.smtp_mode == "self_local" else CommandTransport
        #: its `send` raises nothing, and may be cancelled
        self._transport: SmtpTransport | CommandTransport = transport(settings)

    def check(self, subscriber: str, options: SubscriptionOptions) -> None:
        addressing.parse(subscriber, options.raw, self._writer.sender)
        if options.format == "cloudevents-binary":
            raise errors.BadRequest(
                why='"options": the "format" cloudevents-binary needs the headers of HTTP; for a '
                "mail use cloudevents."
            )

    async def close(self) -> None:
        await self._transport.close()

    async def deliver(self, delivery: Delivery) -> Result:
        try:
            mail = self._writer.write(delivery)
        except (errors.BadRequest, errors.BadConfiguration) as error:
            return Result(Outcome.REFUSED, error=errors.reason(error))
        seconds = delivery.options.timeout
        try:
            async with asyncio.timeout(seconds):
                return await self._transport.send(mail)
        except TimeoutError:
            return Result(
                Outcome.RETRY, error=f"The mail was not accepted within {seconds:g} seconds."
            )


def create(context: TargetContext) -> MailTarget:
    """The object of the entry point ``mailto``.  Raises BadConfiguration."""
    return MailTarget(context.mail)
