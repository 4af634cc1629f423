# SPDX-License-Identifier: Apache-2.0
"""When cron expressions are due."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from zaqar_redis import errors
from zaqar_redis.cron import Cron

PARIS = ZoneInfo("Europe/Paris")


def ms(*fields: int, fold: int = 0, zone: ZoneInfo = PARIS) -> int:
    return round(datetime(*fields, fold=fold, tzinfo=zone).timestamp() * 1000)  # type: ignore[arg-type,misc]


def times(expression: str, after: int, number: int) -> list[str]:
    cron, found = Cron(expression, "Europe/Paris"), []
    for _ in range(number):
        after = cron.next(after) or 0
        found.append(datetime.fromtimestamp(after / 1000, PARIS).isoformat())
    return found


def test_times_are_those_of_the_time_zone_where_clocks_change() -> None:
    # At 2 o'clock of this day it gets 3.
    assert times("30,45 2 * * *", ms(2026, 3, 28, 12), 3) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
        "2026-03-30T02:45:00+02:00",
    ]
    # At 3 o'clock of this day it gets 2 again.
    once = ["2026-10-25T02:45:00+02:00", "2026-10-26T02:45:00+01:00"]
    assert times("45 2 * * *", ms(2026, 10, 24, 12), 2) == once
    assert times("45 2 * * *", ms(2026, 10, 25, 2, 30, fold=1), 1) == once[1:]
    assert times("@hourly", ms(2026, 10, 25, 1, 30), 3) == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]


@pytest.mark.parametrize(
    ("expression", "first", "now", "latest"),
    [
        ("* * * * *", ms(2025, 1, 1), ms(2026, 1, 1, 0, 5, 59), ms(2026, 1, 1, 0, 5)),
        ("* * * * *", ms(2026, 1, 1), ms(2026, 1, 1), ms(2026, 1, 1)),
        ("@daily", ms(2025, 1, 1), ms(2026, 1, 1, 23, 59), ms(2026, 1, 1)),
        ("@yearly", ms(2025, 1, 1), ms(2025, 12, 31, 23, 59), ms(2025, 1, 1)),
        ("30 2 * * *", ms(2026, 3, 27, 2, 30), ms(2026, 3, 29, 3, 0, 5), ms(2026, 3, 29, 3)),
        ("45 2 * * *", ms(2026, 10, 1), ms(2026, 10, 25, 2, 5, fold=1), ms(2026, 10, 25, 2, 45)),
    ],
)
def test_latest_of_missed_times_is_found(
    expression: str, first: int, now: int, latest: int
) -> None:
    assert Cron(expression, "Europe/Paris").latest(first, now) == latest


def test_no_time_follows_the_last_year() -> None:
    end = round(datetime.max.replace(tzinfo=UTC).timestamp()) * 1000
    assert Cron("@daily", "UTC").next(end - 86_400_000) is None
    assert Cron("@daily", "Asia/Tokyo").next(end) is None


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "5 fields"),
        ("* * * *", "5 fields"),
        ("* * * * * *", "5 fields"),
        ("@reboot", "@hourly"),
        ("60 * * * *", "bad minute"),
        ("* * * * 8", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 */31 * MON#5", "never due"),
        (f"{'1,' * 200}1 * * * *", "at most 255 characters"),
    ],
)
def test_bad_expressions_are_refused_soon(expression: str, why: str) -> None:
    begun = time.process_time()
    with pytest.raises(errors.BadRequest, match=f'"cron".*{why}'):
        Cron(expression, "UTC")
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "zone", ["", "Mars/Base", "../../etc/passwd", "/etc/localtime", "UTC\0", "Z" * 65]
)
def test_unknown_time_zones_are_refused(zone: str) -> None:
    with pytest.raises(errors.BadRequest, match='"timezone"'):
        Cron("@daily", zone)
