# SPDX-License-Identifier: Apache-2.0
"""When recurring posts are due: cron expressions in a time zone."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from zaqar_redis import errors

#: Characters of an expression, and of the name of a time zone: lists of all minutes are shorter.
EXPRESSION_MAX, ZONE_MAX = 255, 64
_FIELDS = 5
_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
#: Milliseconds: where clocks are changed a search backwards misses times, so it goes forward there.
_CHANGE = 2 * 3600 * 1000


@functools.cache
def _zones() -> frozenset[str]:
    """Returns the names of IANA's time zones."""
    names = resources.files("tzdata").joinpath("zones").read_text()
    return frozenset(names.split())


class Cron:
    """The times of an expression, in milliseconds."""

    def __init__(self, expression: str, zone: str) -> None:
        """Raises BadRequest, for an expression that is never due, too."""
        if len(zone) > ZONE_MAX:
            raise errors.BadRequest(why=f'"timezone" may have at most {ZONE_MAX} characters.')
        # Not what a machine may have besides, as its own time.
        if zone not in _zones():
            raise errors.BadRequest(
                why='"timezone" must be the name of an IANA time zone, as Europe/Paris is.'
            )
        self._zone = ZoneInfo(zone)
        if len(expression) > EXPRESSION_MAX:
            raise errors.BadRequest(why=f'"cron" may have at most {EXPRESSION_MAX} characters.')
        self._fields = _NAMES.get(expression.strip().lower(), expression)
        if len(self._fields.split()) != _FIELDS:
            names = ", ".join(_NAMES)
            raise errors.BadRequest(
                why=f'"cron" must have {_FIELDS} fields, as "30 9 * * MON-FRI" has, or be one of '
                f"{names}."
            )
        try:
            never = next(CronSim(self._fields, datetime(2024, 1, 1, tzinfo=UTC)), None) is None
        except CronSimError as error:
            raise errors.BadRequest(
                why=f'"cron" cannot be read: {str(error).lower()}. The fields are minute (0-59), '
                "hour (0-23), day of month (1-31, L), month (1-12, JAN-DEC) and day of week (0-7, "
                "MON-SUN), and some month must have the day."
            ) from None
        if never:
            raise errors.BadRequest(why='"cron" is never due: no such day comes in 50 years.')

    def next(self, after: int) -> int | None:
        """Returns the first time after another; None: there is none any more."""
        return next(self._from(after), None)

    def latest(self, first: int, now: int) -> int:
        """Returns the last time until *now*; *first* is one of them."""
        begin = max(first, now - _CHANGE)
        for at in self._from(begin):
            if at > now:
                break
            first = at
        if first >= begin:
            return first
        moment = self._moment(now) + timedelta(seconds=1)
        found = next(CronSim(self._fields, moment, reverse=True), None)
        at = 0 if found is None else round(found.timestamp() * 1000)
        return at if first < at <= now else first

    def _from(self, last: int) -> Iterator[int]:
        """Yields the times after another."""
        try:
            for each in CronSim(self._fields, self._moment(last)):
                at = round(each.timestamp() * 1000)
                if at > last:  # an hour that comes twice, or not at all, is counted once
                    last = at
                    yield at
        except (OverflowError, ValueError):  # behind the year 9999
            return

    def _moment(self, milliseconds: int) -> datetime:
        return datetime.fromtimestamp(milliseconds / 1000, self._zone)
