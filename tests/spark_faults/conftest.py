# SPDX-License-Identifier: Apache-2.0
"""Queues, and a driver shared by tests that do not kill it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.spark_faults.drivers import CopyQuery, SparkDriver, driver
from tests.support.backends import Backend
from tests.support.spark_reads import SparkTestStore

#: Creates a named stream from "q" to "copy", with options of its reader and its writer.
MakeQuery = Callable[..., CopyQuery]


@pytest.fixture
def store(redis_server: Backend, project: str) -> Iterator[SparkTestStore]:
    test_store = SparkTestStore(redis_server.uri, project)
    yield test_store
    test_store.close()


@pytest.fixture(scope="session")
def shared_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A driver with two cores that attempts tasks four times."""
    with driver("local[2,4]", tmp_path_factory.mktemp("driver") / "log") as running:
        yield running


@pytest.fixture
def make_query(project: str, tmp_path: Path) -> MakeQuery:
    def make(
        uri: str,
        name: str = "copy",
        *,
        read: dict[str, object] | None = None,
        write: dict[str, object] | None = None,
        trigger: str | None = None,
        **both: object,
    ) -> CopyQuery:
        everywhere = {"uri": uri, "project": project} | both
        reading = everywhere | {"subscribe": "q"} | (read or {})
        if reading.get("consume") != "claim":
            reading.setdefault("startingOffsets", "earliest")
        writing = everywhere | {"queue": name} | (write or {})
        return CopyQuery(
            # Unique: other tests use the same driver.
            name=f"{project} {name}",
            checkpoint=tmp_path / name,
            read={option: str(value) for option, value in reading.items()},
            write={option: str(value) for option, value in writing.items()},
            trigger=trigger,
        )

    return make
