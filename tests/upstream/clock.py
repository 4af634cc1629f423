# SPDX-License-Identifier: Apache-2.0
"""Makes the driver use the clock of the process, which stock's tests change."""

from __future__ import annotations

from importlib import import_module

from zaqar_redis import clock


def lend() -> None:
    """Replaces the clock of Redis, which our driver reads and tests cannot change."""
    timeutils = import_module("oslo_utils.timeutils")
    clock.store = lambda: int(timeutils.utcnow_ts()) * 1000
