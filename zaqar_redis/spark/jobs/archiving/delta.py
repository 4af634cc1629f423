# SPDX-License-Identifier: Apache-2.0
"""The archive as a Delta table: its files, and ``_delta_log`` beside them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction

from zaqar_redis.spark import columns
from zaqar_redis.spark.jobs.archiving import layout
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import ArchiveFile, ArchiveHeader, Compaction

_SCHEMA = pa.schema([*columns.arrow_schema(layout.COLUMNS), ("date", pa.date32())])


class DeltaFormat:
    def __init__(self, files: HadoopFolder, head: ArchiveHeader) -> None:
        self._uri = files.local or files.root
        self._writer = f"zaqar-redis-{head.id}"

    def add(self, batch: int, files: Sequence[ArchiveFile]) -> None:
        table = self._table()
        last = table.transaction_version(self._writer)
        if last is not None and last >= batch:
            return
        self._commit(table, [_added(each.name, each.size, each.rows) for each in files], batch)

    def replace(self, compaction: Compaction) -> None:
        table = self._table()
        live = set(self.files())
        if compaction.name in live:
            return
        added = _added(compaction.name, compaction.size, compaction.rows, changes=False)
        removed = (_removed(name) for name in compaction.files if name in live)
        self._commit(table, [added, *removed], None)

    def files(self) -> list[str]:
        # The log has paths escaped as in URIs.
        actions = pa.table(self._table().get_add_actions())
        return sorted(unquote(path) for path in actions.column("path").to_pylist())

    def _table(self) -> DeltaTable:
        if not DeltaTable.is_deltatable(self._uri):
            DeltaTable.create(
                self._uri, Schema.from_arrow(_SCHEMA), partition_by=list(layout.FOLDERS)
            )
        return DeltaTable(self._uri)

    def _commit(
        self, table: DeltaTable, actions: list[AddAction | RemoveAction], batch: int | None
    ) -> None:
        # Delta refuses a second commit with the same number of the same writer.
        numbers = None if batch is None else [Transaction(self._writer, batch)]
        table.create_write_transaction(
            actions,
            "append",
            Schema.from_arrow(_SCHEMA),
            list(layout.FOLDERS),
            commit_properties=CommitProperties(app_transactions=numbers),
        )


def _added(name: str, size: int, rows: int, *, changes: bool = True) -> AddAction:
    return AddAction(
        path=name,
        size=size,
        partition_values=layout.values(name),
        modification_time=_now(),
        data_change=changes,
        stats=json.dumps({"numRecords": rows}),
    )


def _removed(name: str) -> RemoveAction:
    partition: dict[str, str | None] = {**layout.values(name)}
    return RemoveAction(name, False, _now(), partition_values=partition)


def _now() -> int:
    return round(time.time() * 1000)
