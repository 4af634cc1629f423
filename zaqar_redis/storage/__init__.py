# SPDX-License-Identifier: Apache-2.0
"""Storage of queues: the contract of a store, and its implementations."""
