# SPDX-License-Identifier: Apache-2.0
"""Ready-made Spark jobs: each is a function, a script for spark-submit, and a command."""
