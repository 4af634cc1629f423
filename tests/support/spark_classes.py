# SPDX-License-Identifier: Apache-2.0
"""A Spark that starts fast: its Python modules compiled, its Java classes archived.

Spark gives its Python processes a zip of pyspark, which each of them compiles for half a second:
a Spark without that zip, in the virtual environment, uses the installed modules.

A JVM with the archive starts in half the CPU time: five seconds less.  To make it takes ten times
as long, and the gate starts one JVM: ``python -m tests.support.spark_classes`` makes it for all
other tests, unless it is there.  A JVM that the archive does not fit ignores it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from importlib import metadata, util
from pathlib import Path

from tests.support import servers

#: What pyspark has installed, by links, without the folder that has the zip.
_HOME = Path(sys.prefix) / f"spark-{metadata.version('pyspark')}"
_ARCHIVE = _HOME / "classes-of-jobs.jsa"
#: JVMs of tests are too short-lived for the optimizing compiler.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds*=off"
#: To verify the thousands of classes of Spark takes a fifth of the CPU time of its start.
_UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
#: Nor do queries of tests run long enough for generated code.
_DRIVER_OPTIONS = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"


def spark_home() -> Path:
    """Returns the folder of Spark, for `SPARK_HOME`; makes it when it is not there."""
    if not _HOME.exists():
        _make_home()
    return _HOME


def _installed() -> Path:
    found = util.find_spec("pyspark")
    assert found
    assert found.origin
    return Path(found.origin).parent


def java_options() -> str:
    """Returns the options for every JVM of the tests."""
    options = f"{_OPTIONS} {_UNVERIFIED}"
    return f"{options} -XX:SharedArchiveFile={_ARCHIVE}" if _ARCHIVE.exists() else options


def driver_java_options() -> str:
    """Returns the options for JVMs that run `spark-submit`, as `SPARK_SUBMIT_OPTS` has them."""
    return f"{java_options()} {_DRIVER_OPTIONS}"


def _load_classes(uri: str, folder: str) -> None:
    """Runs what tests run: a write, a read, files, a query with groups, a stream, and jobs."""
    from pyspark.sql import SparkSession

    from zaqar_redis.spark.jobs import analytics, archive, replay
    from zaqar_redis.spark.jobs.replaying.settings import ReplaySettings

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
    store = {"uri": uri}
    archive.archive(spark, f"{folder}/archive", store | {"subscribe": "q"})
    settings = ReplaySettings(queues=["q"], target="replayed")
    replay.replay(spark, f"{folder}/archive", store, settings)
    analytics.analytics(spark, f"{folder}/report", store | {"subscribe": "q,replayed"})
    spark.stop()


def _make_home() -> None:
    with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
        made = Path(folder) / _HOME.name
        made.mkdir()
        for part in ("bin", "jars", "sbin"):
            (made / part).symlink_to(_installed() / part)
        with contextlib.suppress(OSError):  # another process was faster
            made.rename(_HOME)


def main() -> None:
    from pyspark import SparkContext

    os.environ["SPARK_HOME"] = str(spark_home())
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
