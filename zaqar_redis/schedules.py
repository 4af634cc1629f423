# SPDX-License-Identifier: Apache-2.0
"""The times at which messages are delivered that were posted for later."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

from zaqar_redis import errors

#: A year: what is planned later changes until then.
DAYS_MAX = 366


def parse(text: str, where: str) -> int:
    """Returns the time that an ISO 8601 text says, of UTC if it names no zone, in ms.

    Raises BadRequest, which says *where*.
    """
    try:
        return milliseconds(moment(text))
    except ValueError as error:
        raise errors.BadRequest(why=f'The value of "deliver_at" {error}{where}') from None


def moment(text: str) -> datetime:
    """Returns the time that an ISO 8601 text says, of UTC if it names no zone.

    Raises ValueError with what is wrong with it.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is no time in ISO 8601, as 2030-01-31T12:00:00Z is") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def milliseconds(at: datetime) -> int:
    """Returns the time in ms.  Raises ValueError with what is wrong with it."""
    try:
        seconds = at.timestamp()
    except OverflowError:
        seconds = math.inf
    if seconds - time.time() > DAYS_MAX * 86400:
        raise ValueError(f"is more than {DAYS_MAX} days from now")
    return max(2, math.ceil(seconds * 1000))  # whatever is past is at once
