# SPDX-License-Identifier: Apache-2.0
"""Queues, and a driver that tests share unless they kill it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.spark.support import Store
from tests.spark_faults.drivers import Driver, Query, driver

#: Makes a stream from "q" to "copy", with a name; options of its reader and its writer.
MakeQuery = Callable[..., Query]


@pytest.fixture
def store(redis_server: servers.RedisServer, project: str) -> Iterator[Store]:
    made = Store(redis_server.uri, project)
    yield made
    made.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver on two cores that tries tasks four times."""
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
    ) -> Query:
        everywhere = {"uri": uri, "project": project} | both
        reading = everywhere | {"subscribe": "q"} | (read or {})
        if reading.get("consume") != "claim":
            reading.setdefault("startingOffsets", "earliest")
        writing = everywhere | {"queue": name} | (write or {})
        return Query(
            # Whoever else uses the driver has other names.
            name=f"{project} {name}",
            checkpoint=tmp_path / name,
            read={option: str(value) for option, value in reading.items()},
            write={option: str(value) for option, value in writing.items()},
            trigger=trigger,
        )

    return make
