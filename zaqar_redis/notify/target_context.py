# SPDX-License-Identifier: Apache-2.0
"""What targets may need of the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.notify.trusts import TrustService
from zaqar_redis.records import Record
from zaqar_redis.service.messages import MessageService
from zaqar_redis.storage.contract import PostDeadLetter


class Channels(Protocol):
    def check(self, channel: str) -> None:
        """Raises BadRequest when there is no channel of this name."""

    async def publish(
        self, project: str, channel: str, data: bytes, tags: Mapping[str, str], key: str
    ) -> None:
        """*key*: once within its window.  Raises BadRequest, and Unavailable."""


class TargetContext(Record, frozen=True):
    messages: MessageService
    #: posts what is not in order any more, once
    dead_letter: PostDeadLetter
    #: None: this service has no channels
    channels: Channels | None = None
    http: HttpSettings = HttpSettings()
    mail: MailSettings = MailSettings()
    #: its owner closes it; None: there are no trusts
    trusts: TrustService | None = None
