# SPDX-License-Identifier: Apache-2.0
"""What a service counts, and how Prometheus gets it.

Each worker counts in plain values, and writes them to memory that it shares with its parent
process, which adds them up and serves them.
"""
