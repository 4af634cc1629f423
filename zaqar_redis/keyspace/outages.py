# SPDX-License-Identifier: Apache-2.0
"""What the log says of lost connections: once for all that a process has to one place.

A worker has several to each Redis, and tries each again and again: of a failover they would log
dozens of lines.
"""

from __future__ import annotations

import logging
import os

LOG = logging.getLogger(__name__)

#: Reasons that are logged of one outage: a few more than a failover has.
_REASONS_MAX = 10
#: Places that are remembered: the nodes of many clusters.  Their addresses may be ever new ones.
_PLACES_MAX = 1000


class _Place:
    def __init__(self) -> None:
        self.was_reached = False
        #: connections that are lost, and those that came back while others are lost
        self.lost: set[object] = set()
        self.returned: set[object] = set()
        #: whether any came back since then
        self.was_back = False
        #: those that were logged of the outage; empty: there is none
        self.reasons: set[str] = set()

    def is_new(self, reason: str, connection: object) -> bool:
        """Notes that a connection is lost; returns whether this reason is to be logged."""
        if connection in self.returned:
            self._end()  # another outage, though the last one is not over for all
        self.lost.add(connection)
        if reason in self.reasons or len(self.reasons) >= _REASONS_MAX:
            return False
        self.reasons.add(reason)
        return True

    def is_over(self) -> bool:
        """Returns whether there was an outage, and all who are left came back."""
        if self.lost or not self.was_back or not self.reasons:
            return False
        self._end()
        return True

    def _end(self) -> None:
        self.returned.clear()
        self.reasons.clear()
        self.was_back = False


#: by name and store
_PLACES: dict[tuple[str, str], _Place] = {}


def forget() -> None:
    """Lets all outages be new."""
    _PLACES.clear()


# The connections of its parent are none of a worker's.
os.register_at_fork(after_in_child=forget)


class ConnectionLog:
    """Logs that a connection is lost, and works again, unless another one to its place did."""

    def __init__(self, name: str, store: str, action: str) -> None:
        """*name*: what is lost, e.g. ``connection to redis://…``; *store* and *action*: fields of
        the line."""
        self._key = name, store
        self._name = name
        self._about = {"action": action, "store": store}

    def lost(self, reason: str) -> None:
        """Logs each reason of an outage once."""
        if self._place().is_new(reason, self):
            LOG.warning("no %s: %s", self._name, reason, extra=self._about)

    def back(self, address: str = "") -> bool:
        """Logs the end of an outage; returns whether this is the first connection to its place.

        *address*: of the server, when the name does not have it.
        """
        place = self._place()
        place.lost.discard(self)
        if place.reasons:
            place.returned.add(self)
            place.was_back = True
        self._tell_end(place, address)
        was_reached, place.was_reached = place.was_reached, True
        return not was_reached

    def closed(self) -> None:
        """Forgets a connection that will not come back; others may end the outage."""
        place = _PLACES.get(self._key)
        if place is not None:
            place.lost.discard(self)
            place.returned.discard(self)
            self._tell_end(place, "")

    def _tell_end(self, place: _Place, address: str) -> None:
        if place.is_over():
            detail = f": {address}" if address else ""
            LOG.info("the %s is there again%s", self._name, detail, extra=self._about)

    def _place(self) -> _Place:
        if len(_PLACES) >= _PLACES_MAX and self._key not in _PLACES:
            forget()
        return _PLACES.setdefault(self._key, _Place())
