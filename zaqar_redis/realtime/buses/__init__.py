# SPDX-License-Identifier: Apache-2.0
"""Buses: each fulfils the contract of `zaqar_redis.realtime.bus`."""
