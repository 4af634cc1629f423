# SPDX-License-Identifier: Apache-2.0
"""Where reads begin and end in queues, as options give it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from zaqar_redis import rules
from zaqar_redis.spark import offsets

T = TypeVar("T")

EARLIEST, LATEST = "earliest", "latest"

#: As in Spark's Kafka source: the oldest message, and behind the newest.
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1

_FORMAT = (
    'it must be earliest, latest, or JSON like {"queue": {"epoch": "…", "offset": 7}} or '
    '{"queue": 7}; the offsets -2 and -1 are the earliest and the latest'
)


#: What the offset of a queue in a checkpoint has; see `spark.offsets`.
_FIELDS = frozenset({"epoch", "offset", "parts", "initial", "from"})


@dataclass(frozen=True)
class OffsetPosition:
    """Where to begin or to end in one queue."""

    #: None: whatever epoch the queue has
    epoch: str | None
    #: the rank; `EARLIEST_OFFSET` or `LATEST_OFFSET`
    offset: int


OffsetPositions = str | dict[str, OffsetPosition]


def read(text: str) -> OffsetPositions:
    """Returns the positions in an option.  Raises ValueError, which says what it must be."""
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    try:
        given = json.loads(text, object_pairs_hook=_object)
        if not isinstance(given, dict):
            raise TypeError
        return {name: _position(name, value) for name, value in given.items()}
    except (TypeError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(_FORMAT) from error


def read_end(text: str) -> OffsetPositions:
    """The same, where a read ends."""
    positions = read(text)
    if positions == EARLIEST:
        raise ValueError("nothing is before the earliest message; give latest, or ranks")
    return positions


def read_times(text: str) -> dict[str, int]:
    """Returns times by queue, in ms since 1970.  Raises ValueError as `read` does."""
    try:
        given = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError:
        given = None
    times = given.values() if isinstance(given, dict) else [None]
    if not all(type(time) is int and time >= 0 for time in times):
        raise ValueError('it must be JSON like {"queue": 1767225600000}, in ms since 1970')
    return dict(given)


def by_stored_name(positions: Mapping[str, T], project: str, *, topics: bool) -> dict[str, T]:
    """Returns positions by stored name, without the project that checkpoints prefix.

    Raises ValueError when two are of one queue.
    """
    own, prefix = offsets.key(project, ""), rules.TOPIC_PREFIX if topics else ""
    return _object(
        (prefix + key.removeprefix(own).removeprefix(prefix), position)
        for key, position in positions.items()
    )


def _object(members: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Returns the members of an object of JSON.  Raises ValueError when one is given twice."""
    found: dict[str, T] = {}
    for name, value in members:
        if name in found:
            raise ValueError(f'"{name}" is given twice')
        found[name] = value
    return found


def _position(queue: str, value: Any) -> OffsetPosition:
    epoch = value.get("epoch") if isinstance(value, dict) else None
    offset = value["offset"] if isinstance(value, dict) else value
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < EARLIEST_OFFSET:
        raise TypeError
    if isinstance(value, dict) and (unknown := value.keys() - _FIELDS):
        raise ValueError(f'"{queue}" has the unknown field "{min(unknown)}"')
    if epoch is not None and not re.fullmatch(r"[0-9a-f]{16}", str(epoch)):
        raise ValueError(
            f'the epoch of "{queue}" must be 16 hexadecimal digits in lower case, as the column '
            f'"epoch" has it, not {json.dumps(epoch)}'
        )
    return OffsetPosition(epoch, offset)
