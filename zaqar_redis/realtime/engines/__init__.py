# SPDX-License-Identifier: Apache-2.0
"""Engines of channels: each fulfils the contract of `zaqar_redis.realtime.engine`."""
