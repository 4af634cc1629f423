# SPDX-License-Identifier: Apache-2.0
"""Queues for Spark's readers and writers, and queries that are stopped after the test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from tests.spark.writing import CrashingClients, FakeTaskContext
from tests.support import servers
from tests.support.backends import Backend
from tests.support.spark_reads import SimulatedQuery, SparkTestStore

#: Starts a stream over the test's queues, with the given options.
Start = Callable[..., SimulatedQuery]


@pytest.fixture
def store(redis_server: Backend, project: str) -> Iterator[SparkTestStore]:
    test_store = SparkTestStore(redis_server.uri, project)
    yield test_store
    test_store.close()


@pytest.fixture
def start(store: SparkTestStore) -> Iterator[Start]:
    """Starts streams, of the queue "q" unless options name others."""
    started: list[SimulatedQuery] = []

    def begin(*, available_now: bool = False, **options: object) -> SimulatedQuery:
        if "subscribePattern" not in options:
            options = {"subscribe": "q"} | options
        query = SimulatedQuery(store.source(**options), available_now=available_now)
        started.append(query)
        return query

    yield begin
    for query in started:
        query.stop()


@pytest.fixture(autouse=True)
def context(monkeypatch: pytest.MonkeyPatch) -> FakeTaskContext:
    """The task context that writers see."""
    task_context = FakeTaskContext()
    monkeypatch.setattr(
        "zaqar_redis.spark.task.TaskContext", SimpleNamespace(get=lambda: task_context)
    )
    return task_context


@pytest.fixture
def crashing_clients(monkeypatch: pytest.MonkeyPatch) -> CrashingClients:
    return CrashingClients(monkeypatch)


#: The folder of `pyspark_zaqar`, which Spark imports.
_ROOT = Path(__file__).parents[2]
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # Tests compare the progress of all batches: without that of a query that was idle for 10 s.
    "spark.sql.streaming.noDataProgressEventInterval": "1h",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all tests: a test restores the settings that it changes."""
    servers.program("java")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        known = os.environ.get("PYTHONPATH", "")
        environment.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(_ROOT), known])))
        builder = SparkSession.builder.master("local[2]").appName("tests")
        tables = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
        for name, value in (_SETTINGS | tables).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
