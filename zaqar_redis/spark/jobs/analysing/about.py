# SPDX-License-Identifier: Apache-2.0
"""The header of a report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ReportHeader:
    """What was analysed, and when."""

    #: URI of the store or archive, without a password
    named: str
    project: str
    live: bool
    at: datetime
    #: seconds
    window: int
    widened_from: int | None
