# SPDX-License-Identifier: Apache-2.0
"""What targets need of a service, over a store in memory."""

from __future__ import annotations

from zaqar_redis import rules
from zaqar_redis.notify.target_context import TargetContext
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService
from zaqar_redis.storage.load import load


def target_context() -> TargetContext:
    driver = load("memory://", {})
    messages = MessageService(driver, rules.Limits(), None, LongPoll(driver.feed, 1))
    return TargetContext(messages, driver.messages.dead_letter)
