# SPDX-License-Identifier: Apache-2.0
"""Whether mails can be sent, for what sends them."""

from __future__ import annotations

import logging

from zaqar_redis.notify.target import Outcome, Result

LOG = logging.getLogger(__name__)

#: Characters of an answer that are kept.
ANSWER_MAX = 1024


class MailHealth:
    """Whether mails can be sent.  A change is logged, once: each subscription would repeat it."""

    def __init__(self) -> None:
        self._is_lost = False

    def lost(self, why: str) -> Result:
        """Returns what a subscription's owner is told: nothing about the operator's network."""
        if not self._is_lost:
            LOG.warning("mails cannot be sent: %s", why, extra={"action": "mail_lost"})
        self._is_lost = True
        return Result(
            Outcome.RETRY,
            error="The service cannot send mails at the moment; its operator finds the reason in "
            "the log.",
        )

    def back(self) -> None:
        if self._is_lost:
            LOG.info("mails can be sent again", extra={"action": "mail_back"})
        self._is_lost = False


def shortened(answer: str) -> str:
    """Returns one line of bounded length."""
    return " ".join(answer[: 4 * ANSWER_MAX].split())[:ANSWER_MAX]
