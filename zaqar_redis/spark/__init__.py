# SPDX-License-Identifier: Apache-2.0
"""Queues as Spark's tables and streams: read in Arrow batches, written exactly once.

Whoever does not import this room needs neither pyspark, pyarrow nor numpy.
"""
