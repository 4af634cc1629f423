# SPDX-License-Identifier: Apache-2.0
"""What a run of chaos is asked for, and how its service is configured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.chaos.schedule import FaultTarget
from zaqar_redis.keyspace.settings import BatchSettings

#: Messages of a page of a listing; the service is told to allow that.
PAGE_MESSAGES = 1000


class ChaosSettings(msgspec.Struct, frozen=True):
    #: of `TOPOLOGIES`
    topology: str
    seconds: float
    seed: int
    #: what the schedule chooses from
    faults: Sequence[FaultTarget]
    #: replicas that must have a change before it is acknowledged
    ack_replicas: int
    #: acts a second of each client
    rate: float
    #: where records, logs and files of the stores stay; None: nowhere
    folder: Path | None

    def service_options(self) -> dict[str, dict[str, object]]:
        """Returns options of the service: group -> name -> value."""
        return {
            "DEFAULT": {"admin_mode": True},
            "redis": {
                "ack_replicas": self.ack_replicas,
                # As in production: services of tests are more patient.
                "connect_timeout": BatchSettings().connect_timeout,
            },
            "transport": {"max_messages_per_page": PAGE_MESSAGES},
            "notification": {"in_service": False, "lease": 2},
            "channels": {
                "insecure": True,
                "history_size": 100_000,
                "history_ttl": 3600,
                "force_recovery": True,
            },
        }
