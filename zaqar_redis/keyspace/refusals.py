# SPDX-License-Identifier: Apache-2.0
"""What stores and buses refuse, e.g. every post while one is full: why, and in the log."""

from __future__ import annotations

import logging
import re

from redis.exceptions import AskError, BusyLoadingError, TryAgainError

from zaqar_redis import errors
from zaqar_redis.repeated_lines import RepeatedLines

LOG = logging.getLogger(__name__)

_MOVES = "a slot of its cluster moves to another node (TRYAGAIN)"
_MAXCLIENTS = "max number of clients reached"
#: What a script is told of a slot that its node does not have.
NOT_HERE = "non local key"
#: What a Redis says that refuses for a while, and what that means.  redis-py cuts off the first
#: word of some: of these there is what follows.
_MEANINGS = [
    (re.compile(said), meaning)
    for said, meaning in (
        ("MISCONF", "it cannot write to its disk, which may be full (MISCONF)"),
        ("LOADING|loading the dataset", "it has just started, and loads its data (LOADING)"),
        ("BUSY", "a script keeps it busy (BUSY)"),
        ("MASTERDOWN|MASTER is down", "it is a replica without its primary (MASTERDOWN)"),
        # The others are of a primary that became one before it could confirm a change.
        (
            "READONLY|read only replica|UNBLOCKED|force unblock|WAIT cannot be used with replica",
            "it is a replica, as after a failover (READONLY)",
        ),
        # The second is of a script, while the node does not hear of most others.
        (
            "CLUSTERDOWN|cluster is down|Hash slot not served",
            "nodes of its cluster are missing (CLUSTERDOWN)",
        ),
        (f"TRYAGAIN|{NOT_HERE}", _MOVES),
        ("NOREPLICAS", "fewer replicas than its min-replicas-to-write are there (NOREPLICAS)"),
        (_MAXCLIENTS, "it has as many connections as its maxclients"),
    )
]


def why(error: Exception) -> str:
    """Returns why a store refuses a command for a while; "": it refuses for ever."""
    if isinstance(error, (AskError, TryAgainError)):
        return _MOVES  # they are recognized by their class
    text = str(error)
    return next((meaning for said, meaning in _MEANINGS if said.search(text)), "")


def is_refusal(error: Exception) -> bool:
    """Returns whether a store has answered, though redis-py takes it for a lost connection."""
    return isinstance(error, BusyLoadingError) or str(error) == _MAXCLIENTS


class RefusalLog:
    """Logs the first refusal of a kind at once, then one every 30 s, with how many came between."""

    def __init__(self, what: str = "store") -> None:
        """*what*: refuses, a store or a bus."""
        self._what = what
        self._lines = RepeatedLines()

    def note(self, store: str, kind: str, error: Exception) -> None:
        """*kind*: what such refusals have in common."""
        ending = self._lines.ending(store, kind)
        if ending is not None:
            LOG.warning(
                "the %s %s refuses: %s%s",
                self._what,
                store,
                errors.reason(error),
                ending,
                extra={"action": f"{self._what}_refused", "store": store},
            )
