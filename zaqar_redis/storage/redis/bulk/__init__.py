# SPDX-License-Identifier: Apache-2.0
"""What only bulk readers and writers use: Spark's data source and jobs."""
