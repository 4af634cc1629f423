# SPDX-License-Identifier: Apache-2.0
"""What a report is about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class About:
    """What was analysed."""

    #: without a password
    named: str
    project: str
    live: bool
    at: datetime
    #: seconds
    window: int
    widened_from: int | None
