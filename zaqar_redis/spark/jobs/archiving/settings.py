# SPDX-License-Identifier: Apache-2.0
"""How to archive, and whether an archive can be gone on with so."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from zaqar_redis import errors
from zaqar_redis.spark.jobs.archiving import tables
from zaqar_redis.spark.jobs.archiving.books import Books, Head
from zaqar_redis.spark.jobs.archiving.files import Files
from zaqar_redis.spark.jobs.running import Refused

#: Messages of a batch: some 200 MB of small ones, which tasks write as they read.  Files
#: of a batch are large enough then, and a crash repeats no more than that.
PER_BATCH = 1_000_000
#: Seconds between two looks for news, when a run follows its queues.
EVERY = 10.0


@dataclass(frozen=True)
class Settings:
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
    #: seconds between two looks for more; None: what is there now, and no more
    follow: float | None = None
    go_on_after_loss: bool = False
    quiet: bool = True


def check(settings: Settings) -> None:
    """Raises BadConfiguration for what cannot be, whatever the archive is."""
    if settings.format is not None:
        tables.check(settings.format)
    if settings.table is not None and not settings.table.rpartition(".")[0]:
        raise errors.BadConfiguration(f'--table: "{settings.table}" is not like namespace.name')
    if settings.catalog is not None and urlsplit(settings.catalog).password:
        raise errors.BadConfiguration(
            "--catalog: with a password it must be one that pyiceberg is configured for, "
            "given by its name: the archive keeps what is given here"
        )


def head(files: Files, books: Books, settings: Settings) -> Head:
    """What the archive is, which begins with this if there is none.

    Raises BadConfiguration when it is another than is wanted, and Refused when there is
    something else in its place.
    """
    found = books.head()
    if found is None:
        return _begun(files, books, settings)
    for name in ("format", "catalog", "table"):
        wanted, is_ = getattr(settings, name), getattr(found, name)
        if wanted not in (None, is_):
            raise errors.BadConfiguration(
                f"--{name}: {files.root} was begun with {is_ or 'none'}, not with {wanted}"
            )
    return found


def _begun(files: Files, books: Books, settings: Settings) -> Head:
    if strange := [name for name in files.names("") if not name.startswith(("_", "."))]:
        raise Refused(f"{files.root} is no archive of queues, and has {strange[0]} in it")
    format = settings.format or tables.PARQUET
    for name, given in (("catalog", settings.catalog), ("table", settings.table)):
        if given is not None and format != tables.ICEBERG:
            raise errors.BadConfiguration(f"--{name}: only --format iceberg has one, not {format}")
    return books.begin(format, settings.catalog, settings.table)
