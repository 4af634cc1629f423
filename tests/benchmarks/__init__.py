# SPDX-License-Identifier: Apache-2.0
"""Benchmarks beyond `zaqar-redis bench`, which only compares services of the Zaqar API."""
