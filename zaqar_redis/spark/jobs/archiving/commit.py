# SPDX-License-Identifier: Apache-2.0
"""Commits changes of an archive, in steps between which it may crash.

1. Files are written to a folder that is unique to this try.
2. A manifest says which files these are, and which ones they replace.  Before it, a crash
   leaves an archive without the change, and the next run plans anew.  From here on it is
   finished from the staged files, and the queues are not read again: the messages may have
   expired meanwhile.
3. The files are moved to their folders, under names that are the same for any try.
4. The table, where the format has one, commits them; it knows the change by its number.
5. The change is recorded as done, with the offsets at which to read on.
6. Without a table, files that were replaced are removed.  A table keeps them for readers of
   older states, until its own clean-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.lock import LockCheck
from zaqar_redis.spark.jobs.archiving.transaction_log import Manifest, TransactionLog

if TYPE_CHECKING:
    from zaqar_redis.spark.jobs.archiving.delta import DeltaFormat


class Committer:
    def __init__(
        self, files: HadoopFolder, log: TransactionLog, table: DeltaFormat | None, held: LockCheck
    ) -> None:
        self._files = files
        self._log = log
        self._table = table
        self._held = held
        #: after the last change
        self.state = log.state()

    def commit(self, manifest: Manifest) -> None:
        """Does steps 2 to 6."""
        self._held()
        self._log.staged(manifest)
        self._finish(manifest)

    def resume(self) -> Manifest | None:
        """Finishes what a run that did not end had staged; returns what it had not recorded."""
        manifest = self._log.manifest()
        unrecorded = manifest is not None and manifest.number > self.state.number
        if manifest is not None:
            self._finish(manifest)
        self._log.tidy()
        return manifest if unrecorded else None

    def _finish(self, manifest: Manifest) -> None:
        """Does steps 3 to 6; skips those that are done already."""
        self._held()
        if manifest.number > self.state.number:
            self._record(manifest)
        if self._table is None:
            for name in manifest.replaced:
                self._files.remove(name)
        self._log.remove(manifest)

    def _record(self, manifest: Manifest) -> None:
        for file in manifest.files:
            self._files.move(file.staged, file.name)
        if self._table is not None:
            self._table.commit(manifest)
        state = self.state.after(manifest)
        self._log.finished(manifest, state)
        self.state = state
