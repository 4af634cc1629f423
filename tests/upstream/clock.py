# SPDX-License-Identifier: Apache-2.0
"""Lets the driver go by the clock of the process, which stock's tests turn."""

from __future__ import annotations

from importlib import import_module

from zaqar_redis import clock


def lend() -> None:
    """Our driver asks Redis what time it is; nobody but a test could turn that clock."""
    timeutils = import_module("oslo_utils.timeutils")
    clock.store = lambda: int(timeutils.utcnow_ts()) * 1000
