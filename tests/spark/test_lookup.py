# SPDX-License-Identifier: Apache-2.0
"""Spark finds the format from any working directory, also with an editable install."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import zaqar_redis
from tests.support import processes

#: What PySpark runs in a worker at the first use of a Python data source: it writes the
#: number of formats, and the name and class of each.
_LOOKED_UP = """\
import io
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql.worker.lookup_data_sources import _main
from pyspark.worker_util import pickleSer
told = io.BytesIO()
_main(io.BytesIO(), told)
told.seek(0)
for _ in range(read_int(told)):
    name = UTF8Deserializer().loads(told)
    source = pickleSer._read_with_length(told)
    print(name, source.__module__, source.__name__)
"""


def test_format_is_found_from_any_working_directory(tmp_path: Path) -> None:
    assert not tmp_path.is_relative_to(Path(zaqar_redis.__file__).parents[1])
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = processes.run([sys.executable, "-c", _LOOKED_UP], cwd=tmp_path, env=without)
    assert found.stdout.splitlines() == ["zaqar zaqar_redis.spark.source ZaqarDataSource"], (
        f"of {zaqar_redis.__file__}: {found.stderr}"
    )
