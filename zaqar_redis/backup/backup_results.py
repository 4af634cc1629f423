# SPDX-License-Identifier: Apache-2.0
"""What a backup or a restore did with each queue and schedule."""

from __future__ import annotations

from enum import StrEnum

from zaqar_redis.records import Record
from zaqar_redis.storage.pools.import_targets import ImportStatus

#: The names of schedules in results begin with it: no queue is called so.
SCHEDULE = "schedule:"


class BackupStatus(StrEnum):
    """What a backup did with a queue."""

    SAVED = "saved"
    GONE = "deleted meanwhile"
    FAILED = "failed"

    @property
    def good(self) -> bool:
        return self is not BackupStatus.FAILED


class BackupResult(Record, frozen=True):
    """The outcome for one queue, by the name that it has in stores, or one schedule."""

    project: str
    queue: str
    #: of a backup; or of a restore
    status: BackupStatus | ImportStatus
    #: in the backup
    messages: int = 0
    why: str = ""

    @property
    def noun(self) -> str:
        return "schedules" if self.queue.startswith(SCHEDULE) else "queues"
