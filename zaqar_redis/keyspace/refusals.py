# SPDX-License-Identifier: Apache-2.0
"""What stores and buses refuse, in the log: e.g. every post while one is full."""

from __future__ import annotations

import logging
import time

from zaqar_redis import errors

LOG = logging.getLogger(__name__)

#: Seconds between two lines about the same: a store may be full for a night.
_INTERVAL_SECONDS = 30.0
#: Stores and kinds of refusals that are told apart: as many as there may be pools.
_KINDS_MAX = 1000


class RefusalLog:
    """Logs the first refusal of a kind at once, then one every 30 s, with how many came between."""

    def __init__(self, what: str = "store") -> None:
        """*what*: refuses, a store or a bus."""
        self._what = what
        #: by store and kind: when it was logged (monotonic), and how many were not since then
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}

    def note(self, store: str, kind: str, error: Exception) -> None:
        """*kind*: what such refusals have in common."""
        now = time.monotonic()
        at, left_out = self._logged.get((store, kind), (-_INTERVAL_SECONDS, 0))
        if now - at < _INTERVAL_SECONDS:
            self._logged[store, kind] = at, left_out + 1
            return
        if len(self._logged) >= _KINDS_MAX:
            self._logged.clear()
        self._logged[store, kind] = now, 0
        more = f" ({left_out} more in the {now - at:.0f} s before)" if left_out else ""
        LOG.warning(
            "the %s %s refuses: %s%s",
            self._what,
            store,
            errors.reason(error),
            more,
            extra={"action": f"{self._what}_refused", "store": store},
        )
