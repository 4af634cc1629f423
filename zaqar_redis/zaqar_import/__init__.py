# SPDX-License-Identifier: Apache-2.0
"""Import from stock Zaqar's own Redis store: its layout, and the copy of its queues.

The package `zaqar` is not needed, and nothing is ever written to that store.
"""
