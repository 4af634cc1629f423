# SPDX-License-Identifier: Apache-2.0
"""Queues for Spark's readers and writers, and queries that are stopped behind the test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from tests import servers
from tests.spark.support import Query, Store
from tests.spark.writing import Context, Dying

#: Starts a stream over the test's queues; its options.
Start = Callable[..., Query]


@pytest.fixture
def store(redis_server: servers.RedisServer, project: str) -> Iterator[Store]:
    made = Store(redis_server.uri, project)
    yield made
    made.close()


@pytest.fixture
def start(store: Store) -> Iterator[Start]:
    """Start a stream over the queue "q", unless options say otherwise."""
    started: list[Query] = []

    def begin(*, available_now: bool = False, **options: object) -> Query:
        if "subscribePattern" not in options:
            options = {"subscribe": "q"} | options
        query = Query(store.source(**options), available_now=available_now)
        started.append(query)
        return query

    yield begin
    for query in started:
        query.stop()


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Context:
    """The task that writers believe to be in."""
    made = Context()
    monkeypatch.setattr("zaqar_redis.spark.context.TaskContext", SimpleNamespace(get=lambda: made))
    return made


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Dying:
    return Dying(monkeypatch)


#: Where `pyspark_zaqar` is, which Spark looks for.
_ROOT = Path(__file__).parents[2]
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of all tests: settings that a test changes, it sets back."""
    servers.program("java")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        known = os.environ.get("PYTHONPATH", "")
        environment.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(_ROOT), known])))
        builder = SparkSession.builder.master("local[2]").appName("tests")
        for name, value in _SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
