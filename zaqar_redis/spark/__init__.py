# SPDX-License-Identifier: Apache-2.0
"""Spark data source: queues as tables and streams, read in Arrow, written exactly once.

Only imports of this package need pyspark, pyarrow and numpy.
"""
