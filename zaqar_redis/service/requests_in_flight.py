# SPDX-License-Identifier: Apache-2.0
"""How many requests a worker is working on, of each project: it refuses more than it can answer.

A request that waits for messages (`long_polls`) is not counted while it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zaqar_redis import errors
from zaqar_redis.metrics.definitions import REQUESTS_REFUSED


class RequestsInFlight:
    def __init__(self, most: int, most_of_project: int) -> None:
        self._most = most
        self._most_of_project = most_of_project
        self.count = 0
        #: of projects that have some
        self._by_project: dict[str, int] = {}

    def enter(self, project: str) -> None:
        """Counts a request until `leave`.  Raises TooManyInFlight, and counts nothing then."""
        by_project = self._by_project
        number = by_project.get(project, 0)
        if self.count >= self._most:
            raise _refusal("worker", "This worker", self._most)
        if number >= self._most_of_project:
            raise _refusal("project", f"The project {project}", self._most_of_project)
        self.count += 1
        by_project[project] = number + 1

    def leave(self, project: str) -> None:
        self.count -= 1
        by_project = self._by_project
        number = by_project[project] - 1
        if number:
            by_project[project] = number
        else:
            del by_project[project]

    @contextmanager
    def waiting(self, project: str) -> Iterator[None]:
        """Does not count a request while it waits; then it goes on, however many there are."""
        self.leave(project)
        try:
            yield
        finally:
            self.count += 1
            self._by_project[project] = self._by_project.get(project, 0) + 1


def _refusal(bound: str, whose: str, most: int) -> errors.TooManyInFlight:
    REQUESTS_REFUSED.add(bound)
    option = "max_in_flight" if bound == "worker" else "max_in_flight_project"
    return errors.TooManyInFlight(whose=whose, most=most, option=option)
