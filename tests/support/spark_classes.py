# SPDX-License-Identifier: Apache-2.0
"""The classes that Spark loads, archived: a JVM with the archive starts in half the CPU time.

``python -m tests.support.spark_classes`` creates the archive in the virtual environment, unless
it is there.  A JVM that the archive does not fit ignores it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from tests.support import servers

_ARCHIVE = Path(sys.prefix) / f"spark-{metadata.version('pyspark')}.jsa"
#: JVMs of tests are too short-lived for the optimizing compiler.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds*=off"
#: Nor do queries of tests run long enough for generated code.
_DRIVER_OPTIONS = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"


def java_options() -> str:
    """Returns the options for every JVM of the tests."""
    return f"{_OPTIONS} -XX:SharedArchiveFile={_ARCHIVE}" if _ARCHIVE.exists() else _OPTIONS


def driver_java_options() -> str:
    """Returns the options for JVMs that run `spark-submit`, as `SPARK_SUBMIT_OPTS` has them."""
    return f"{java_options()} {_DRIVER_OPTIONS}"


def _load_classes(uri: str, folder: str) -> None:
    """Runs what tests run: a write, a read, files, a query with groups, and a stream."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    rows = spark.range(100).selectExpr("cast(id as string) as body")
    rows.write.format("zaqar").mode("append").option("uri", uri).option("queue", "q").save()
    found = spark.read.format("zaqar").option("uri", uri).option("subscribe", "q").load()
    found.write.parquet(f"{folder}/files")
    spark.read.parquet(f"{folder}/files").groupBy("queue").count().collect()
    source = spark.readStream.format("zaqar").option("uri", uri).option("subscribe", "q")
    sink = source.load().select("body").writeStream.format("zaqar").option("uri", uri)
    sink = sink.option("queue", "copy").option("checkpointLocation", f"{folder}/checkpoint")
    sink.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def main() -> None:
    from pyspark import SparkContext

    if _ARCHIVE.exists():
        return
    print("Archiving the classes of Spark (once)...", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder, servers.redis_server() as server:
        archive = Path(folder) / _ARCHIVE.name
        os.environ["SPARK_SUBMIT_OPTS"] = f"{_OPTIONS} -XX:ArchiveClassesAtExit={archive}"
        os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        _load_classes(server.uri, folder)
        gateway = SparkContext._gateway
        assert gateway
        gateway.proc.stdin.close()  # the JVM ends with its input, and writes the archive
        gateway.proc.wait()
        shutil.move(archive, _ARCHIVE)


if __name__ == "__main__":
    main()
