# SPDX-License-Identifier: Apache-2.0
"""Settings of archiving, and whether they fit an archive that exists."""

from __future__ import annotations

from dataclasses import dataclass

from zaqar_redis import errors
from zaqar_redis.spark.jobs.archiving import layout, tables, transaction_log
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import STAGED, ArchiveHeader, TransactionLog
from zaqar_redis.spark.jobs.running import JobRefused

#: Messages of a batch: some 200 MB of small ones, which tasks write as they read.  Files
#: of a batch are large enough then, and a crash repeats no more than that.
PER_BATCH = 1_000_000
#: Seconds between two polls, when a run follows its queues.
EVERY = 10.0
#: Bytes of a name that every file system takes.
_NAME_SIZE = 255


@dataclass(frozen=True)
class ArchiveSettings:
    """See the arguments of the command."""

    #: None: that of the archive, or Parquet
    format: str | None = None
    compact: bool = True
    #: messages
    per_batch: int = PER_BATCH
    #: seconds between two polls; None: archive what queues hold now, and end
    follow: float | None = None
    go_on_after_loss: bool = False
    quiet: bool = True


def check_project(files: HadoopFolder, project: str) -> None:
    """Raises JobRefused when the file system can have no folder of the project."""
    folder = layout.project_folder(project)
    size = len(folder.encode())
    if size <= _NAME_SIZE:
        return
    attempt = f"{STAGED}/{transaction_log.attempt()}"
    fits = files.can_have(f"{attempt}/{folder}")
    files.remove(attempt)
    if not fits:
        raise JobRefused(
            f'the queues of the project "{project}" cannot be archived to {files.root}: the name '
            f"of its folder has {size} bytes, which the file system does not take; choose a TARGET "
            "in an object store"
        )


def head(files: HadoopFolder, log: TransactionLog, settings: ArchiveSettings) -> ArchiveHeader:
    """Returns the header of the archive, which is created if there is none.

    Raises BadConfiguration when it is another than is wanted, and JobRefused when there is
    something else in its place.
    """
    found = log.head()
    if found is None:
        if strange := [name for name in files.names("") if not name.startswith(("_", "."))]:
            raise JobRefused(f"{files.root} is no archive of queues, and has {strange[0]} in it")
        return log.begin(settings.format or tables.PARQUET)
    if found.format not in tables.FORMATS:
        raise errors.BadConfiguration(
            f"{files.root} is an archive of the format {found.format}, which gets no more "
            "messages: begin another one"
        )
    if settings.format not in (None, found.format):
        raise errors.BadConfiguration(
            f"--format: {files.root} was begun with {found.format}, not with {settings.format}"
        )
    return found
