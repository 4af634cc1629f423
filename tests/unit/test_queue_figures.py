# SPDX-License-Identifier: Apache-2.0
"""Figures of a project's queues: sorted, filtered and added up, and watched while needed."""

from __future__ import annotations

import asyncio
import random
import uuid
from typing import get_args

import pytest

from zaqar_redis.figures import QueueFigures
from zaqar_redis.records import MessageCounters
from zaqar_redis.service import queue_figures
from zaqar_redis.storage import pools

COLUMNS = get_args(queue_figures.SortColumn)


def project(number: int) -> queue_figures.ProjectFigures:
    """Returns so many queues, many of which have the same figures."""
    of = random.Random(number)
    rows = [
        queue_figures.QueueRow(
            f"queue-{each:05}",
            "default",
            QueueFigures(
                f"queue-{each:05}",
                at=100_000,
                epoch="e",
                total=(total := of.randrange(9)),
                claimed=of.randrange(total + 1),
                oldest=of.choice([0, 1000, 5000]),
                counters=MessageCounters(posted=of.randrange(5)),
            ),
            posted=of.choice([None, 0.0, 2.5]),
            dead_letters=of.randrange(3),
        )
        for each in range(number)
    ]
    return queue_figures.ProjectFigures(rows, queue_figures.Totals(), 0.0)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("column", COLUMNS)
async def test_pages_are_those_of_the_sorted_whole(
    column: queue_figures.SortColumn, descending: bool
) -> None:
    found = project(5000)

    def value(row: queue_figures.QueueRow) -> object:
        known = getattr(row if hasattr(row, column) else row.figures, column)
        return -1 if known is None else known

    expected = [row.name for row in sorted(found.rows, key=value, reverse=descending)]  # type: ignore[arg-type]  # of one type in each column
    wanted = queue_figures.QueueFilter(sort=column, descending=descending)
    names: list[str] = []
    for offset in (0, 1300, 2600, 3900):
        rows, matching = await queue_figures.select(found, wanted, offset, 1300)
        assert matching == 5000
        names += [row.name for row in rows]
    result = names
    assert result == expected


def test_filters_may_be_combined() -> None:
    found = project(3000)
    wanted = queue_figures.QueueFilter(search="1", not_empty=True, dead_letters=True)
    rows, matching = asyncio.run(queue_figures.select(found, wanted, 0, 3000))
    expected = [
        row.name for row in found.rows if "1" in row.name and row.figures.total and row.dead_letters
    ]
    assert ([row.name for row in rows], matching) == (expected, len(expected))
    assert 0 < matching < 3000


async def test_only_so_many_projects_are_watched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine some would be read once more, just as the service is closed.
    monkeypatch.setattr(queue_figures, "_INTERVAL", 3000.0)
    uri = f"memory://{uuid.uuid4()}"
    driver = pools.create(uri, uri, {})
    await driver.start()
    service = queue_figures.QueueFiguresService(driver)
    for number in range(40):
        found = await service.get(f"project-{number}", 60)
        assert (found.rows, found.complete) == ([], True)
    watching = [
        task
        for task in asyncio.all_tasks()
        if task.get_name() == "queue figures" and not task.cancelling()
    ]
    assert len(watching) == 16
    await service.close()
    await driver.close()
