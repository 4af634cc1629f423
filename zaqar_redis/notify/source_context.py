# SPDX-License-Identifier: Apache-2.0
"""What all sources of a process share."""

from __future__ import annotations

from typing import Protocol

from zaqar_redis.notify.circuit import FailingCircuits
from zaqar_redis.notify.failures import FailureRuns
from zaqar_redis.notify.limits import DeliverySlots, MessageMemory
from zaqar_redis.notify.target import Target
from zaqar_redis.service.messages import MessageService
from zaqar_redis.storage.contract import Driver


class SourceContext(Protocol):
    driver: Driver
    messages: MessageService
    requires_confirmation: bool
    slots: DeliverySlots
    memory: MessageMemory
    circuits: FailingCircuits
    failures: FailureRuns

    def target(self, subscriber: str) -> Target | None:
        """Returns what delivers to a subscriber; None: this process does not."""
