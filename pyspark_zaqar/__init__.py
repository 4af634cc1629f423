# SPDX-License-Identifier: Apache-2.0
"""Makes Spark know the format ``zaqar`` by itself.

At the first use of a Python data source, PySpark imports every module called
``pyspark_*`` and takes its `DefaultSource`.  It does so for the sources of others
too: importing this must be cheap, and must not fail.
"""

from __future__ import annotations

from zaqar_redis.spark.source import ZaqarDataSource as DefaultSource

__all__ = ["DefaultSource"]
