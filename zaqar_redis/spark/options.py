# SPDX-License-Identifier: Apache-2.0
"""The options of the data source: names, defaults, and what they may be.

The names are those of Spark's Kafka source wherever the meaning is the same.  An
option that is unknown, or does not apply to the way the source is used, is an error: a
misspelt limit would otherwise be no limit.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zaqar_redis import errors, rules
from zaqar_redis.spark import positions

#: The environment variable of the URI when no option gives it: query plans show options,
#: and a URI may have a password in it.
ENVIRONMENT = "ZAQAR_REDIS_URI"

#: Ways to use the source.
BATCH, STREAM, WRITE, SINK = "batch read", "streaming read", "batch write", "streaming write"
READS = (BATCH, STREAM)
_WRITES = (WRITE, SINK)
_ALL = (*READS, *_WRITES)

BROWSE, CLAIM = "browse", "claim"
QUEUE, TOPIC = "queue", "topic"
LEDGER, STAGED, NONE = "ledger", "staged", "none"

#: A Lua script can unpack some 8000 values; a message is three of them.
_CHUNK_MAX = 2000
#: Largest TTL of a message, in seconds.
TTL_MAX = 2**31 - 1

_BODY_MAX = rules.Limits().max_messages_post_size


@dataclass(frozen=True)
class Option:
    name: str
    uses: tuple[str, ...]
    #: parses the text; raises ValueError, which says what it must be
    read: Callable[[str], Any]
    #: text that is parsed when the option is not given; None: no default
    default: str | None = None


def _int(least: int, most: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        limits = f"{least} to {most}" if most is not None else f"at least {least}"
        if not re.fullmatch(r"[0-9]{1,18}", text) or not least <= int(text) <= (most or math.inf):
            raise ValueError(f"it must be a whole number, {limits}")
        return int(text)

    return read


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text.lower() == "true"


def _choice(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"it must be one of {', '.join(words)}")
        return text.lower()

    return read


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def _seconds(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(ms|s|m|h)", text.strip().lower())
        if not found or not least <= float(found[1]) * _UNITS[found[2]] <= most:
            raise ValueError(
                f"it must be a time like 500ms, 30s, 15m or 1h, from {least:g}s to {most:g}s"
            )
        return float(found[1]) * _UNITS[found[2]]

    return read


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,15})([kmg]?)b?", text.strip().lower())
    if not found or int(found[1]) == 0:
        raise ValueError("it must be a number of bytes, at least 1, like 1048576 or 64m")
    return int(found[1]) * _SIZES[found[2]]


def _queues(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def stored_name(kind: str, name: str) -> str:
    """Returns the queue that a name means: of the topic ``news`` it is ``topic:news``, as which
    it may be given, too.  Raises ValueError.
    """
    plain = name.removeprefix(rules.TOPIC_PREFIX) if kind == TOPIC else name
    if not rules.is_queue_name(plain):
        raise ValueError(
            f'"{name}" is no name of a {kind}: 1 to {rules.QUEUE_NAME_MAX} ASCII letters, '
            "digits, underscores, dashes and dots"
        )
    return rules.topic(plain) if kind == TOPIC else plain


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"it must be a regular expression: {error}") from error


def _text(text: str) -> str:
    if not text:
        raise ValueError("it must not be empty")
    return text


def id_text(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", text):
        raise ValueError("it must be 1 to 64 ASCII letters, digits, underscores, dashes and dots")
    return text


def _project(text: str) -> str:
    try:
        rules.project_id(text)
    except errors.EmptyProject as problem:
        raise ValueError("it must not be empty") from problem
    except errors.Problem as problem:
        raise ValueError(problem.text) from problem
    return text


#: All options, in the order of their reference, the table in doc/spark.md.
OPTIONS: tuple[Option, ...] = (
    Option("uri", _ALL, _text),
    Option("uriFile", _ALL, _text),
    Option("controlUri", _ALL, _text),
    Option("project", _ALL, _project, "default"),
    Option("kind", _ALL, _choice(QUEUE, TOPIC), QUEUE),
    Option("timeout", _ALL, _seconds(0.1, 600), "10s"),
    Option("subscribe", READS, _queues),
    Option("subscribePattern", READS, _pattern),
    Option("columns", READS, _text),
    Option("startingOffsets", READS, positions.read),
    Option("startingTimestamp", READS, _int(0)),
    Option("startingOffsetsByTimestamp", READS, positions.read_times),
    Option("endingOffsets", (BATCH,), positions.read_end, positions.LATEST),
    Option("endingTimestamp", (BATCH,), _int(0)),
    Option("minPartitions", READS, _int(1, 10_000)),
    Option("maxRecordsPerPartition", READS, _int(1000), "500000"),
    Option("fetchSize", READS, _int(1, 5000), "2000"),
    Option("readReplicas", READS, _flag, "false"),
    Option("includeExpired", READS, _flag, "false"),
    Option("includeClaimed", (BATCH,), _flag, "true"),
    Option("includeDelayed", (BATCH,), _flag, "true"),
    Option("pushdown", (BATCH,), _flag),
    Option("failOnDataLoss", READS, _flag, "true"),
    Option("maxOffsetsPerTrigger", (STREAM,), _int(1)),
    Option("maxBytesPerTrigger", (STREAM,), _bytes),
    Option("minOffsetsPerTrigger", (STREAM,), _int(1)),
    Option("maxTriggerDelay", (STREAM,), _seconds(0, 86400), "15m"),
    Option("maxWait", (STREAM,), _seconds(0, 10), "500ms"),
    Option("consume", (STREAM,), _choice(BROWSE, CLAIM), BROWSE),
    Option("group", (STREAM,), id_text),
    Option("claimTtl", (STREAM,), _seconds(60, 43200), "300s"),
    Option("claimGrace", (STREAM,), _seconds(60, 43200), "60s"),
    Option("queue", _WRITES, _text),
    Option("delivery", _WRITES, _choice(LEDGER, STAGED, NONE)),
    Option("writeId", (WRITE,), id_text),
    Option("putSize", _WRITES, _int(1, _CHUNK_MAX), "500"),
    Option("maxMessageSize", _WRITES, _bytes, str(_BODY_MAX)),
    Option("ttl", _WRITES, _int(rules.TTL_MIN, TTL_MAX)),
    Option("clientId", _WRITES, _text, "zaqar-redis-spark"),
    Option("preserve", (WRITE,), _flag, "false"),
)

#: Of Spark's Kafka source, and the option that does as much.
_OF_KAFKA = {"endingoffsetsbytimestamp": "endingtimestamp"}

#: Options of the query, which Spark passes to every source together with ours.
_SPARKS_OWN = frozenset({"checkpointlocation"})

_BY_NAME = {option.name.lower(): option for option in OPTIONS}


class SourceOptions:
    """The given options, checked; by name: ``options["fetchSize"]``.

    Raises BadConfiguration that names the option.
    """

    def __init__(self, use: str, given: Mapping[str, str]) -> None:
        self.use = use
        self._values: dict[str, Any] = {}
        for name, text in given.items():
            if name.lower() in _SPARKS_OWN:
                continue
            option = _BY_NAME.get(name.lower())
            if option is None or use not in option.uses:
                raise errors.BadConfiguration(_unknown(name, option, use))
            self._values[option.name] = _read(option, str(text))
        self.given = frozenset(self._values)
        for option in OPTIONS:
            if use in option.uses and option.name not in self._values:
                default = option.default
                self._values[option.name] = _read(option, default) if default is not None else None
        for option in OPTIONS:
            if self._values.get(option.name) is not None:
                self._values[option.name] = self._resolved(option, self._values[option.name])

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def _resolved(self, option: Option, value: Any) -> Any:
        """Returns the value of an option, with stored names if it names queues."""
        kind = self["kind"]
        try:
            if option.read is _queues:
                return tuple(dict.fromkeys(stored_name(kind, name) for name in value))
            if option.name == "queue":
                return stored_name(kind, value)
            if isinstance(value, dict):
                return positions.by_stored_name(value, self["project"], topics=kind == TOPIC)
        except ValueError as error:
            raise errors.BadConfiguration(f'option "{option.name}": {error}') from error
        return value

    def none_of(self, names: Iterable[str], why: str) -> None:
        """Raises BadConfiguration when one of these is given."""
        for name in names:
            if name in self.given:
                raise errors.BadConfiguration(f'option "{name}" means nothing {why}')

    def at_most_one_of(self, *names: str) -> None:
        """Raises BadConfiguration when more than one of these is given."""
        given = [f'"{name}"' for name in names if name in self.given]
        if len(given) > 1:
            raise errors.BadConfiguration(
                f"the options {' and '.join(given)} exclude each other; give one of them"
            )

    def exactly_one_of(self, *names: str) -> None:
        """Raises BadConfiguration unless just one of these is given."""
        self.at_most_one_of(*names)
        if self.given.isdisjoint(names):
            words = " and ".join(f'"{name}"' for name in names)
            raise errors.BadConfiguration(f"one of the options {words} must be given")

    def uri(self) -> str:
        """Returns the URI of the store.  Raises BadConfiguration when nothing gives it."""
        self.at_most_one_of("uri", "uriFile")
        if "uriFile" in self.given:
            return _content(self["uriFile"])
        uri: str | None = self["uri"] or os.environ.get(ENVIRONMENT)
        if not uri:
            raise errors.BadConfiguration(
                f'one of the options "uri" and "uriFile" must be given, or {ENVIRONMENT} be set'
            )
        return uri


def _content(path: str) -> str:
    """Returns the URI in a file.  Raises BadConfiguration."""
    try:
        uri = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.BadConfiguration(f'option "uriFile": {error}') from error
    if not uri:
        raise errors.BadConfiguration(f'option "uriFile": there is nothing in {path}')
    return uri


def _read(option: Option, text: str) -> Any:
    try:
        return option.read(text)
    except ValueError as error:
        raise errors.BadConfiguration(f'option "{option.name}": {error}') from error


def _unknown(name: str, option: Option | None, use: str) -> str:
    names = {each.name.lower(): each.name for each in OPTIONS if use in each.uses}
    known = ", ".join(names.values())
    if option is not None:
        return f'the option "{option.name}" is none of a {use}; there are: {known}'
    if name == "path":
        by = "queue" if use in _WRITES else "subscribe"
        return f'load() and save() take no path: name the queue by the option "{by}"'
    # Spark writes all names in lower case: the user has not.
    near = [_OF_KAFKA.get(name.lower()) or ""]
    if near[0] not in names:
        near = difflib.get_close_matches(name.lower(), names, 1)
    meant = f'; did you mean "{names[near[0]]}"?' if near else ""
    return f'unknown option "{name}"{meant or f"; for a {use} there are: {known}"}'
