# SPDX-License-Identifier: Apache-2.0
"""What a backup or a restore did with each queue and schedule."""

from __future__ import annotations

from enum import StrEnum

from zaqar_redis.records import Record
from zaqar_redis.storage.pools.import_targets import ImportStatus

_SCHEDULE = "schedule:"


class BackupStatus(StrEnum):
    """What a backup did with a queue."""

    SAVED = "saved"
    GONE = "deleted meanwhile"
    FAILED = "failed"

    @property
    def good(self) -> bool:
        return self is not BackupStatus.FAILED


class BackupResult(Record, frozen=True):
    """The outcome for one queue, by the name that it has in stores, or for one schedule."""

    project: str
    #: of a schedule `schedule:NAME`: no queue is called so
    queue: str
    #: of a backup; or of a restore
    status: BackupStatus | ImportStatus
    #: in the backup
    messages: int = 0
    why: str = ""

    @classmethod
    def of_schedule(
        cls, project: str, name: str, status: BackupStatus | ImportStatus, why: str = ""
    ) -> BackupResult:
        return cls(project, f"{_SCHEDULE}{name}", status, why=why)

    @property
    def noun(self) -> str:
        return "schedules" if self.queue.startswith(_SCHEDULE) else "queues"
