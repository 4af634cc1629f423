# SPDX-License-Identifier: Apache-2.0
"""Stock Zaqar's own Redis store: how it is laid out, and how its queues become ours.

The package `zaqar` is not needed, and nothing is ever written to that store.
"""
