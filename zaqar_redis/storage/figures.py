# SPDX-License-Identifier: Apache-2.0
"""The contract of a store whose figures operators can watch.

It changes nothing, and works on queues that are being moved, too.  Every method may raise
`errors.StoreUnavailable` or `errors.Overloaded`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Protocol

from zaqar_redis.figures import QueueFigures, StoreStatus


class StoreFigures(Protocol):
    def status(self) -> Awaitable[StoreStatus | None]:
        """Returns what the store says about itself; None: nothing."""

    def queues(self, project: str, names: Sequence[str]) -> Awaitable[Sequence[QueueFigures]]:
        """Returns the figures of those of these queues that exist; a few hundred at most."""

    def names(
        self, project: str, after: str, limit: int, *, topics: bool = False
    ) -> Awaitable[Sequence[str]]:
        """Returns names of queues, or of topics, in order, behind the name *after*."""

    def projects(self) -> AsyncIterator[tuple[str, bool]]:
        """Yields the projects that have queues, or topics (True), in the store, perhaps some of
        them twice."""
