# SPDX-License-Identifier: Apache-2.0
"""The nodes of channels, as operators watch them: their reports, and connections of clients."""

from __future__ import annotations

import time
from collections.abc import Sequence

from zaqar_redis import errors
from zaqar_redis.realtime.node.control import ConnectionFilter, ConnectionReport, NodeReport
from zaqar_redis.realtime.node.control_plane import connection_order
from zaqar_redis.realtime.node.node import Node

#: Seconds for which a node that does not answer any more is remembered.
_REMEMBERED = 120.0


class NodeMonitor:
    """Asks the nodes how they are, over the bus of this one."""

    def __init__(self, node: Node, patience: float) -> None:
        """*patience*: seconds that nodes have to answer."""
        self.own = node.id
        self._node = node
        self._patience = patience
        #: the last report of each node, and when it came (monotonic)
        self._known: dict[str, tuple[float, NodeReport]] = {}

    async def reports(self) -> list[NodeReport]:
        """Returns the reports of the nodes that answer in time, by name; this one at least."""
        plane = self._node.control_plane
        try:
            answers = await plane.survey("", "load", seconds=self._patience)
        except errors.Unavailable:
            answers = ()
        found = {each.report.node: each.report for each in answers if each.report is not None}
        found.setdefault(self.own, plane.report())
        now = time.monotonic()
        self._known = {
            id: known for id, known in self._known.items() if now - known[0] < _REMEMBERED
        } | {id: (now, report) for id, report in found.items()}
        return sorted(found.values(), key=lambda report: report.name)

    def missing(self, present: Sequence[NodeReport]) -> list[tuple[str, float]]:
        """Returns the names of nodes that do not answer any more, and seconds since they did."""
        now, ids = time.monotonic(), {node.node for node in present}
        return [
            (report.name, now - seen) for id, (seen, report) in self._known.items() if id not in ids
        ]

    async def connections(
        self, project: str, wanted: ConnectionFilter, offset: int
    ) -> tuple[Sequence[ConnectionReport], int]:
        """Returns open connections, the latest first, and how many match.  Raises Unavailable.

        *wanted* has the limit of the page.
        """
        end = offset + wanted.limit
        selection = ConnectionFilter(wanted.user, wanted.transport, wanted.address, end)
        answers = await self._node.control_plane.survey(
            project, "connections", selection=selection, seconds=self._patience
        )
        found = sorted((each for one in answers for each in one.connections), key=connection_order)
        return found[offset:end], sum(each.matching for each in answers)
