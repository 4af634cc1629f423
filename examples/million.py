# SPDX-License-Identifier: Apache-2.0
"""A million messages through Spark: post, count by windows, archive, replay, plot.

    pip install '.[spark,report]'
    python examples/million.py out
    python examples/million.py out --messages 50000 --storage redis://127.0.0.1:6379/0

Writes out/archive (Parquet) and out/report (tables, and report.html to open in a browser).
Without --storage it starts a private Redis, and removes it at the end. With it, it creates
the queues "orders" and "replayed" of the project "example" there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tqdm import tqdm

from zaqar_redis import clock
from zaqar_redis.keyspace import blocking, embedded
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.records import NewMessage
from zaqar_redis.spark.jobs.analytics import analytics
from zaqar_redis.spark.jobs.archive import archive
from zaqar_redis.spark.jobs.replay import replay
from zaqar_redis.spark.jobs.replaying.settings import ReplaySettings
from zaqar_redis.spark.jobs.session import NORMAL, session
from zaqar_redis.storage.redis.messages import RedisMessages

PROJECT, QUEUE, COPY = "example", "orders", "replayed"
#: Messages of one post.
POST = 500
SHOPS = ("Berlin", "Lagos", "Lima", "Osaka", "Quito")


@contextlib.contextmanager
def store(given: str | None) -> Iterator[str]:
    """Yields the URI of the store to use."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder, embedded.running(f"embedded://{folder}") as uri:
        yield uri


def post(uri: str, number: int) -> None:
    """Posts orders of five shops directly to the store; a service does so over HTTP."""
    client = blocking.client(uri, BatchSettings())
    messages = RedisMessages(client, clock.store)
    client_id = str(uuid.uuid4())
    for start in tqdm(range(0, number, POST), desc="posting", unit_scale=POST, unit=" messages"):
        batch = [NewMessage(order(each)) for each in range(start, min(start + POST, number))]
        messages.post(PROJECT, QUEUE, batch, client=client_id, default_ttl=86_400, size=0).run()
    client.close()


def order(number: int) -> bytes:
    body = {"order": number, "shop": random.choice(SHOPS), "cents": random.randrange(100, 100_000)}
    return json.dumps(body).encode()


def count(spark: SparkSession, source: dict[str, str], checkpoint: Path) -> None:
    """Prints turnover by shop and ten seconds, by a stream that ends when it has caught up."""
    shop = F.get_json_object(F.col("body").cast("string"), "$.shop")
    cents = F.get_json_object(F.col("body").cast("string"), "$.cents").cast("long")
    counts = (
        spark.readStream.format("zaqar")
        .options(**source, subscribe=QUEUE, startingOffsets="earliest")
        .option("maxOffsetsPerTrigger", 250_000)
        .load()
        .groupBy(F.window("created", "10 seconds"), shop.alias("shop"))
        .agg(F.count("*").alias("orders"), F.sum(cents / 100).alias("turnover"))
    )
    query = (
        counts.writeStream.format("memory")
        .queryName("turnover")
        .outputMode("complete")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print_turnover(spark.table("turnover"))


def print_turnover(counts: DataFrame) -> None:
    counts.orderBy("window", "shop").select(
        "window.start", "shop", "orders", F.round("turnover", 2).alias("turnover")
    ).show(10, truncate=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder for the archive and the report")
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many (1000000)")
    parser.add_argument("--storage", metavar="URI", help="a store to use (a private one)")
    args = parser.parse_args()
    with (
        store(args.storage) as uri,
        tempfile.TemporaryDirectory() as checkpoint,
        session("example", None, {}, NORMAL) as spark,
    ):
        post(uri, args.messages)
        source = {"uri": uri, "project": PROJECT}
        count(spark, source, Path(checkpoint))
        target = str(args.out / "archive")
        reports = (
            archive(spark, target, source | {"subscribe": QUEUE}),
            replay(spark, target, source, ReplaySettings(queues=[QUEUE], target=COPY)),
            analytics(
                spark,
                str(args.out / "report"),
                source | {"subscribe": f"{QUEUE},{COPY}"},
                window="10 seconds",
            ),
        )
    for report in reports:
        print(report.as_text())


if __name__ == "__main__":
    main()
