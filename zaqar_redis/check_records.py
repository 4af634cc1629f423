# SPDX-License-Identifier: Apache-2.0
"""What checks of stores find, and how healthy these are: frozen values, as in `records`."""

from __future__ import annotations

from typing import Any

import msgspec

from zaqar_redis.records import MoveLock, Record


class Finding(Record, frozen=True):
    """An inconsistency in a store."""

    what: str
    #: False: left behind by a process that died, and harmless
    damage: bool = True
    #: it was repaired
    mended: bool = False
    #: nothing was found: the store was away
    unread: bool = False


class CheckResult(Record, frozen=True):
    """A queue that was checked, or with neither project nor queue something else."""

    project: str = ""
    queue: str = ""
    #: the pool whose store it was found in
    store: str = ""
    move_lock: MoveLock | None = None
    #: False: the queue does not exist, but some of its keys do
    exists: bool = False
    messages: int = 0
    findings: tuple[Finding, ...] = ()

    def with_(self, *findings: Finding, **fields: Any) -> CheckResult:
        """Returns a copy with more findings, and with *fields* replaced."""
        return msgspec.structs.replace(self, findings=self.findings + findings, **fields)


class OperationCheck(Record, frozen=True, forbid_unknown_fields=True):
    """How a kind of operation went when it was tried."""

    succeeded: bool
    seconds: float
    #: names a failure
    ref: str | None = None


class StoreHealth(Record, frozen=True, forbid_unknown_fields=True):
    storage_reachable: bool
    #: by operation; it ends with the first that failed
    operation_status: dict[str, OperationCheck]

    @property
    def healthy(self) -> bool:
        return self.storage_reachable and all(
            each.succeeded for each in self.operation_status.values()
        )
