# SPDX-License-Identifier: Apache-2.0
"""Engines of channels: each keeps the contract of `zaqar_redis.realtime.engine`."""
