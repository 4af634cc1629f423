# SPDX-License-Identifier: Apache-2.0
"""Clients of queues and of jobs, compared: see `benchmarks.clients.__main__`."""
