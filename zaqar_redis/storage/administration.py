# SPDX-License-Identifier: Apache-2.0
"""The contract of a store whose messages operators can look at and move.

Errors and times are those of `zaqar_redis.storage.contract`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from zaqar_redis.records import ClaimSummary, Page, PeekPage


class Administration(Protocol):
    """What operators do with messages and claims, and clients do not."""

    def peek(
        self, project: str, queue: str, *, state: str, after: str | None, limit: int
    ) -> Awaitable[PeekPage]:
        """Returns up to *limit* messages behind the id *after*, oldest first; changes nothing.

        Of a *state* ("free", "claimed", "delayed", "expired"), or '' for all.  Looks at a bounded
        number of messages: a page may be short, or empty, and still have a marker to go on from.
        """

    def list_claims(
        self, project: str, queue: str, *, after: str, limit: int
    ) -> Awaitable[Page[ClaimSummary]]:
        """Returns up to *limit* live claims that hold messages, those that end first.

        *after* is the marker of the page before, or ''.  A page may be short, or empty, and still
        have a marker to go on from.
        """

    def move(
        self, project: str, queue: str, ids: Sequence[str], *, target: str, restore: bool
    ) -> Awaitable[Sequence[str]]:
        """Moves messages to the end of the queue *target*, each once; returns their ids.

        Those that are claimed or missing are left.  They keep body, TTL (which begins anew),
        client and, unless *restore*, the queue that they came from as dead letters.  When it fails
        in between, the rest is held for a minute; a message that has been posted to *target* is
        recognised there for a day, and is not posted again.
        """

    def copy(
        self, project: str, queue: str, ids: Sequence[str], *, target: str
    ) -> Awaitable[Sequence[str]]:
        """Copies messages, claimed or not, to the end of *target*, each once a day; returns their
        ids."""
