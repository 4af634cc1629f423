# SPDX-License-Identifier: Apache-2.0
"""The format of what is stored: what each version of it adds, and who can go on with it.

A release that adds something to what `doc/keys.md` describes adds a row here.  Releases on both
sides of it work on one store, because older ones ignore the addition.  If they cannot, the row
needs its own version; then the release does not write what it adds until ``zaqar-redis upgrade``
has raised what the store needs.
"""

from __future__ import annotations

from importlib.metadata import version

from msgspec import Struct


class StoreFormat(Struct, frozen=True):
    """The format that a store is marked with."""

    #: the highest version of a release that has worked on the store
    version: int
    #: the lowest version that a release must know to work on it
    needs: int = 1


class FormatChange(Struct, frozen=True):
    version: int
    #: as in `StoreFormat`, of stores that have what this version adds
    needs: int
    #: what it adds, for operators
    adds: str


CHANGES = (
    FormatChange(1, 1, "everything before stores were marked with their format"),
    FormatChange(
        2,
        1,
        "the mark of the format, the field exhausted of queues, topics of the routing service, "
        "releases of workers",
    ),
    FormatChange(
        3,
        1,
        "leases of single messages, the fields min_claim_ttl, redelivery, limits and dedup of "
        "queues, records of what identifies messages, schedules",
    ),
    FormatChange(4, 4, "priorities and ordered groups; first claim and reason of messages"),
    FormatChange(5, 5, "groups that take turns; limits of the bytes in a queue, and their count"),
    FormatChange(
        6,
        4,
        "priorities are read from messages: an older release takes a message that it gives back "
        "for one without priority",
    ),
)

#: The version that a store must need before a queue has priorities or groups: releases that do not
#: know their keys leave them behind when they move or delete it, and claim what is not its turn.
ORDER = 4
#: The same before groups take turns, or a queue has a limit of its bytes: releases that do not know
#: it do not count them.
FAIR = BYTES = 5
#: Of stores without a mark.
UNMARKED = StoreFormat(1)
#: What this release writes.
CURRENT = StoreFormat(CHANGES[-1].version, max(change.needs for change in CHANGES))


class WorkerRelease(Struct, frozen=True):
    """What a live worker says of itself."""

    #: empty: that of one that does not say
    release: str
    format: int


def worker_name(worker: str) -> str:
    """Returns the name by which a worker reports: older releases take any text for a name."""
    return f"{worker} {version('zaqar-redis')} {CURRENT.version}"


def release_of(name: str) -> WorkerRelease:
    """Returns the release of a worker by the name under which it reports."""
    _, *told = name.split(" ")
    return WorkerRelease(told[0], int(told[1])) if told else WorkerRelease("", UNMARKED.version)
