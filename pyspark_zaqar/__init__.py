# SPDX-License-Identifier: Apache-2.0
"""Registers the format ``zaqar`` with Spark.

At the first use of any Python data source, PySpark imports every module called
``pyspark_*`` and registers its `DefaultSource`: importing this must be cheap, and must
not fail.
"""

from __future__ import annotations

from zaqar_redis.spark.source import ZaqarDataSource as DefaultSource

__all__ = ["DefaultSource"]
