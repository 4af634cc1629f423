# SPDX-License-Identifier: Apache-2.0
"""Pools: what they and many queues cost, and how fast one is drained."""
