# SPDX-License-Identifier: Apache-2.0
"""The archive as a Delta table: its files, and ``_delta_log`` beside them."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction

from zaqar_redis import clock
from zaqar_redis.spark import columns
from zaqar_redis.spark.jobs.archiving import layout
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import ArchiveFile, ArchiveHeader, Manifest

_SCHEMA = pa.schema([*columns.arrow_schema(layout.COLUMNS), ("date", pa.date32())])


class DeltaFormat:
    def __init__(self, files: HadoopFolder, head: ArchiveHeader) -> None:
        self._uri = files.local or files.root
        self._writer = f"zaqar-redis-{head.id}"

    def commit(self, manifest: Manifest) -> None:
        """Makes a change in one transaction, unless it, or a later one, was committed."""
        table = self._table()
        last = table.transaction_version(self._writer)
        if last is not None and last >= manifest.number:
            return
        _add_missing_columns(table)
        compaction = bool(manifest.replaced)
        live = set(self.files()) if compaction else set()
        table.create_write_transaction(
            [
                *(_added(each, changes=not compaction) for each in manifest.files),
                *(_removed(name) for name in manifest.replaced if name in live),
            ],
            "append",
            Schema.from_arrow(_SCHEMA),
            list(layout.FOLDERS),
            # Delta refuses a second commit with the same number of the same writer.
            commit_properties=CommitProperties(
                app_transactions=[Transaction(self._writer, manifest.number)]
            ),
        )

    def files(self) -> list[str]:
        """Returns the current files, as sorted paths below the archive."""
        # The log has paths escaped as in URIs.
        actions = pa.table(self._table().get_add_actions())
        return sorted(unquote(path) for path in actions.column("path").to_pylist())

    def _table(self) -> DeltaTable:
        schema, folders = Schema.from_arrow(_SCHEMA), list(layout.FOLDERS)
        return DeltaTable.create(self._uri, schema, mode="ignore", partition_by=folders)


def _add_missing_columns(table: DeltaTable) -> None:
    """Gives the table of an older version the columns that it does not have."""
    known = {field.name for field in table.schema().fields}
    missing = [field for field in Schema.from_arrow(_SCHEMA).fields if field.name not in known]
    if missing:
        table.alter.add_columns(missing)


def _added(file: ArchiveFile, *, changes: bool) -> AddAction:
    return AddAction(
        path=file.name,
        size=file.size,
        partition_values=layout.values(file.name),
        modification_time=clock.process(),
        data_change=changes,
        stats=json.dumps({"numRecords": file.rows}),
    )


def _removed(name: str) -> RemoveAction:
    partition: dict[str, str | None] = {**layout.values(name)}
    return RemoveAction(name, False, clock.process(), partition_values=partition)
