# SPDX-License-Identifier: Apache-2.0
"""Settings of archiving, and whether they fit an archive that exists."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

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
    #: of an Iceberg table; None: one within the archive
    catalog: str | None = None
    #: of an Iceberg table, with its namespace
    table: str | None = None
    compact: bool = True
    #: messages
    per_batch: int = PER_BATCH
    #: seconds between two polls; None: archive what queues hold now, and end
    follow: float | None = None
    go_on_after_loss: bool = False
    quiet: bool = True


def check(settings: ArchiveSettings) -> None:
    """Raises BadConfiguration for settings that are never valid."""
    if settings.format is not None:
        tables.check(settings.format)
    if settings.table is not None and not settings.table.rpartition(".")[0]:
        raise errors.BadConfiguration(f'--table: "{settings.table}" is not like namespace.name')
    if settings.catalog is not None and urlsplit(settings.catalog).password:
        raise errors.BadConfiguration(
            "--catalog: with a password it must be one that pyiceberg is configured for, "
            "given by its name: the archive keeps what is given here"
        )


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
        return _begun(files, log, settings)
    for name in ("format", "catalog", "table"):
        wanted, is_ = getattr(settings, name), getattr(found, name)
        if wanted not in (None, is_):
            raise errors.BadConfiguration(
                f"--{name}: {files.root} was begun with {is_ or 'none'}, not with {wanted}"
            )
    return found


def _begun(files: HadoopFolder, log: TransactionLog, settings: ArchiveSettings) -> ArchiveHeader:
    if strange := [name for name in files.names("") if not name.startswith(("_", "."))]:
        raise JobRefused(f"{files.root} is no archive of queues, and has {strange[0]} in it")
    format = settings.format or tables.PARQUET
    for name, given in (("catalog", settings.catalog), ("table", settings.table)):
        if given is not None and format != tables.ICEBERG:
            raise errors.BadConfiguration(f"--{name}: only --format iceberg has one, not {format}")
    return log.begin(format, settings.catalog, settings.table)
