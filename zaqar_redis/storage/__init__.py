# SPDX-License-Identifier: Apache-2.0
"""Queues that wait: what a store promises, and those who keep it."""
