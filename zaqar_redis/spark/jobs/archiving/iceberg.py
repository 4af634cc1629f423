# SPDX-License-Identifier: Apache-2.0
"""The archive as an Iceberg table: its files, and metadata below ``_zaqar/iceberg``.

The catalogue is a SQLite file beside the metadata, unless another one is given.
"""

from __future__ import annotations

import os

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table, Transaction
from pyiceberg.transforms import DayTransform, IdentityTransform

from zaqar_redis import errors
from zaqar_redis.spark import columns
from zaqar_redis.spark.jobs.archiving import layout
from zaqar_redis.spark.jobs.archiving.files import LOG_FOLDER, HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import ArchiveHeader, Manifest

TABLE = "zaqar.archive"
_FOLDER = f"{LOG_FOLDER}/iceberg"
#: Property of the table: the last committed change.
_CHANGE = "zaqar-redis.change"


class IcebergFormat:
    """Raises BadConfiguration when the catalogue does not exist."""

    def __init__(self, files: HadoopFolder, head: ArchiveHeader) -> None:
        local = files.local
        self._root = f"file://{local}" if local is not None else files.root
        self._name = head.table or TABLE
        self._catalog = _catalog(files, head.catalog)

    def commit(self, manifest: Manifest) -> None:
        table = self._table_to_write()
        if int(table.properties.get(_CHANGE, -1)) >= manifest.number:
            return
        with table.transaction() as transaction:
            if manifest.replaced:
                self._replace(table, transaction, manifest)
            elif manifest.files:
                transaction.add_files(
                    [self._path(each.name) for each in manifest.files],
                    snapshot_properties={_CHANGE: str(manifest.number)},
                )
            # In the same transaction as the files; others may expire snapshots.
            transaction.set_properties({_CHANGE: str(manifest.number)})

    def _replace(self, table: Table, transaction: Transaction, manifest: Manifest) -> None:
        live = {task.file.file_path: task.file for task in table.scan().plan_files()}
        with transaction.update_snapshot().overwrite() as snapshot:
            for name in manifest.replaced:
                snapshot.delete_data_file(live[self._path(name)])
            for file in manifest.files:
                path = self._path(file.name)
                snapshot.append_data_file(parquet_file_to_data_file(table.io, table.metadata, path))

    def files(self) -> list[str]:
        start = len(self._root.rstrip("/")) + 1
        return sorted(task.file.file_path[start:] for task in self._table().scan().plan_files())

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _table(self) -> Table:
        try:
            table = self._catalog.load_table(self._name)
        except NoSuchTableError:
            table = self._made()
        if table.spec() == UNPARTITIONED_PARTITION_SPEC:
            with table.update_spec() as spec:
                spec.add_field("project", IdentityTransform(), "project_name")
                spec.add_field("queue", IdentityTransform(), "queue_name")
                spec.add_field("created", DayTransform(), "created_day")
        return table

    def _table_to_write(self) -> Table:
        """Returns the table; one of an older version gets the columns that it does not have."""
        table = self._table()
        ours = columns.arrow_schema(layout.COLUMNS)
        if not {*ours.names} <= {*table.schema().column_names}:
            with table.update_schema() as schema:
                schema.union_by_name(ours)
        return table

    def _made(self) -> Table:
        self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        return self._catalog.create_table(
            self._name,
            columns.arrow_schema(layout.COLUMNS),
            location=self._root,
            # Else readers of plain Parquet would take its folder for data.
            properties={"write.metadata.path": self._path(_FOLDER)},
        )


def _catalog(files: HadoopFolder, given: str | None) -> Catalog:
    try:
        if given is None:
            return _own(files)
        if "://" in given:
            return SqlCatalog("zaqar", uri=given, warehouse=files.root)
        return load_catalog(given)
    except errors.BadConfiguration:
        raise
    except Exception as error:  # each kind of catalogue has its own exceptions
        raise errors.BadConfiguration(f"--catalog: {error}") from error


def _own(files: HadoopFolder) -> Catalog:
    if files.local is None:
        raise errors.BadConfiguration(
            f"--catalog: needed for {files.root}, where no SQLite file can be"
        )
    folder = os.path.join(files.local, _FOLDER)
    os.makedirs(folder, exist_ok=True)
    return SqlCatalog("zaqar", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
