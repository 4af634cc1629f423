# SPDX-License-Identifier: Apache-2.0
"""Benchmark of a Zaqar v2 service on this machine: load generator and report."""
