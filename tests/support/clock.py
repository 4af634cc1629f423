# SPDX-License-Identifier: Apache-2.0
"""A clock for verbs and engines."""

from __future__ import annotations


class ManualClock:
    """A clock in milliseconds that only a test advances."""

    def __init__(self, start: int = 1_800_000_000_000) -> None:
        self.now = start

    def __call__(self) -> int:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += round(seconds * 1000)
