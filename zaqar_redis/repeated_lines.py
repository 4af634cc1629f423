# SPDX-License-Identifier: Apache-2.0
"""Bounds how often the log has what happens again and again, e.g. with each request."""

from __future__ import annotations

import time

#: Seconds between two lines of a kind: a store may be full for a night.
_INTERVAL_SECONDS = 30.0
#: Kinds that are told apart: as many as there may be pools.
_KINDS_MAX = 1000


class RepeatedLines:
    """The first line of a kind is for the log at once, then one every 30 s."""

    def __init__(self) -> None:
        #: by kind: when there was a line (monotonic), and how many were left out since then
        self._lines: dict[tuple[str, ...], tuple[float, int]] = {}

    def ending(self, *kind: str) -> str | None:
        """Returns what a line ends with, how many were left out before; None: leave it out, too."""
        now = time.monotonic()
        at, left_out = self._lines.get(kind, (-_INTERVAL_SECONDS, 0))
        if now - at < _INTERVAL_SECONDS:
            self._lines[kind] = at, left_out + 1
            return None
        if len(self._lines) >= _KINDS_MAX:
            self._lines.clear()
        self._lines[kind] = now, 0
        return f" ({left_out} more in the {now - at:.0f} s before)" if left_out else ""
