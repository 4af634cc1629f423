# SPDX-License-Identifier: Apache-2.0
"""Histories of topics are read and written by Spark as queues are."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import closing

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.spark.conftest import Start
from tests.spark.writing import BatchWrite, StreamWrite, rows, schema_of, write_all
from tests.support import fixtures, servers
from tests.support.spark_reads import BatchRead, SparkTestStore, batch, values
from zaqar_redis.errors import BadConfiguration
from zaqar_redis.spark.jobs import archive, arguments, migrate, running
from zaqar_redis.spark.options import BATCH, SourceOptions
from zaqar_redis.spark.writing.rows import BadRow

NEWS = "topic:news"
BODY = StructType([StructField("body", BinaryType())])


other_server = fixtures.redis("function")


def create(store: SparkTestStore, name: str = "news", **metadata: int) -> None:
    store.queues.create(store.project, f"topic:{name}", metadata).run()


def test_batch_of_a_topic_has_its_history_and_no_queue_of_that_name(store: SparkTestStore) -> None:
    create(store)
    store.post(1, 2, 3, queue=NEWS)
    store.post("other", queue="news")
    found = batch(store.source(kind="topic", subscribe="news"))
    assert values(found) == [1, 2, 3]
    assert {(row["queue"], row["kind"]) for row in found} == {(NEWS, "topic")}
    assert values(batch(store.source(subscribe="news"))) == ["other"]


def test_batch_of_a_topic_reads_the_ranks_that_offsets_name(store: SparkTestStore) -> None:
    create(store)
    store.post(*range(1, 10), queue=NEWS)
    for name in ("news", NEWS, f"{store.project}/{NEWS}"):
        found = batch(
            store.source(
                kind="topic",
                subscribe="news",
                startingOffsets=f'{{"{name}": 4}}',
                endingOffsets=f'{{"{name}": 7}}',
            )
        )
        assert values(found) == [4, 5, 6]


def test_pattern_of_topics_selects_topics_alone(store: SparkTestStore) -> None:
    create(store)
    create(store, "sport")
    store.post(1, queue=NEWS)
    store.post(2, queue="topic:sport")
    store.post(3, queue="north")
    assert values(batch(store.source(kind="topic", subscribePattern="n.*"))) == [1]
    assert values(batch(store.source(subscribePattern="n.*"))) == [3]


def test_stream_follows_a_topic_and_what_it_missed(store: SparkTestStore, start: Start) -> None:
    create(store)
    store.post(1, queue=NEWS)
    query = start(kind="topic", subscribe="news", startingOffsets="earliest")
    assert values(query.trigger() or []) == [1]
    store.post(2, 3, queue=NEWS)
    query.restart()
    assert values(query.trigger() or []) == [2, 3]
    assert list(query.end) == [f"{store.project}/{NEWS}"]


def test_topic_is_not_claimed(store: SparkTestStore, start: Start) -> None:
    create(store)
    with pytest.raises(BadConfiguration, match="topics have no claims"):
        start(kind="topic", subscribe="news", consume="claim", group="g")


@pytest.mark.parametrize("given", ["nothing", NEWS + "2"])
def test_missing_topic_is_named(store: SparkTestStore, given: str) -> None:
    with pytest.raises(BadConfiguration, match='there is no topic "topic:n'):
        batch(store.source(kind="topic", subscribe=given))


def test_names_of_topics_are_no_names_of_queues(store: SparkTestStore) -> None:
    with pytest.raises(BadConfiguration, match='"topic:news" is no name of a queue'):
        batch(store.source(subscribe=NEWS))


@pytest.mark.parametrize("delivery", ["ledger", "staged", "none"])
def test_sink_keeps_the_size_of_the_history(store: SparkTestStore, delivery: str) -> None:
    create(store, _history_size=3)
    source = store.source(kind="topic", queue="news", delivery=delivery, putSize=2)
    write_all(BatchWrite(source, BODY), [rows(*map(str, range(8)))])
    assert store.bodies(NEWS) == [5, 6, 7]
    assert store.last_rank(NEWS) == 8


def test_sink_creates_topics_that_its_column_names(store: SparkTestStore) -> None:
    given = rows("1", "2", queue=["news", NEWS])
    write_all(StreamWrite(store.source(kind="topic"), schema_of(given)), [given])
    found = store.queues.list(store.project, "", 10, None, topics=True).run()
    assert [topic.name for topic in found.items] == [NEWS]
    assert store.bodies(NEWS) == [1, 2]
    assert not store.queues.list(store.project, "", 10, None).run().items


def test_column_of_a_sink_for_queues_may_not_name_a_topic(store: SparkTestStore) -> None:
    given = rows("1", queue=[NEWS])
    with pytest.raises(BadRow, match="no name of a queue"):
        write_all(StreamWrite(store.source(), schema_of(given)), [given])


def test_topic_is_restored_with_its_ids(store: SparkTestStore) -> None:
    create(store)
    store.post(1, 2, queue=NEWS)
    before = store.ids(NEWS)
    names = "body,rank,epoch,created,expires"
    read = BatchRead(store.source(kind="topic", subscribe="news", columns=names))
    found = read.table().to_batches()
    store.delete(NEWS)
    source = store.source(kind="topic", queue="news", preserve=True)
    write_all(BatchWrite(source, read.schema), found)
    assert (store.bodies(NEWS), store.ids(NEWS)) == ([1, 2], before)


def test_archive_reads_topics_that_its_arguments_name() -> None:
    parser = ArgumentParser()
    arguments.add_common(parser)
    archive.add_arguments(parser)
    parsed = parser.parse_args(["--topic", "news", "--topic", "sport", "lake"])
    options = SourceOptions(BATCH, arguments.source_options(parsed))
    assert options["subscribe"] == (NEWS, "topic:sport")
    again = {"kind": "topic", "subscribe": ",".join(options["subscribe"])}
    assert SourceOptions(BATCH, again)["subscribe"] == options["subscribe"]


def test_migration_takes_topics_along(
    spark: SparkSession, store: SparkTestStore, other_server: servers.RedisServer
) -> None:
    create(store)
    store.post(1, queue=NEWS)
    store.post(2, queue="q")
    before = store.ids(NEWS)
    code = running.main(
        migrate,
        [
            *("--pattern", ".*", "--to-storage", other_server.uri, "--no-progress"),
            *("--storage", store.uri, "--project", store.project),
        ],
    )
    assert code == 0
    with closing(SparkTestStore(other_server.uri, store.project)) as target:
        assert target.ids(NEWS) == before
        assert target.bodies("q") == [2]
        moved_back = running.main(
            migrate,
            [
                *("--topic", "news", "--to-storage", store.uri, "--no-progress"),
                *("--storage", target.uri, "--project", store.project),
            ],
        )
    assert moved_back == 0
    assert store.ids(NEWS) == before
