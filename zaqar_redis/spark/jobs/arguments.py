# SPDX-License-Identifier: Apache-2.0
"""The arguments of jobs.

An argument is declared once, as a field of the settings of its job:

target: str | None = argument("where to post them", flag="--target-queue", check=queue_name)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import Field, field, fields
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from zaqar_redis import errors, rules
from zaqar_redis.spark.jobs.session import LOW, NORMAL
from zaqar_redis.spark.options import TOPIC

T = TypeVar("T")

#: Messages of a chunk that jobs post.  A constant, so that a retry at another rate has the same
#: chunks; larger ones would make the rate bursty, smaller ones cost more round trips.
CHUNK_MESSAGES = 200

#: Options of the data source that select queues, in lower case.
SELECTING = frozenset({"subscribe", "subscribepattern"})

#: Raises ValueError, which says what is wrong with a value.
ValueCheck = Callable[[Any], object]


def argument(
    help: str,
    *,
    default: Any = None,
    flag: str | None = None,
    group: str | None = None,
    check: ValueCheck | None = None,
    **given: Any,
) -> Any:
    """Returns a field of settings that is an argument of the command, too.

    *flag* is by default the field's name, *group* the title of its group in the help;
    *given* is for `add_argument`.  With the action ``append`` the field is a sequence, each
    value of which is checked; with the *default* False, the argument has no value.
    """
    if default is False:
        given["action"] = "store_true"
    how = {"flag": flag, "group": group, "check": check, "given": given | {"help": help}}
    return field(default=default, metadata=how)


def add(parser: argparse.ArgumentParser, settings: type[Any]) -> None:
    """Adds the arguments that a class of settings declares, in the order of its fields."""
    groups: dict[str | None, argparse._ActionsContainer] = {None: parser}
    for each in _declared(settings):
        group = each.metadata["group"]
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        groups[group].add_argument(_flag(each), dest=each.name, **each.metadata["given"])


def read(settings: type[T], parsed: argparse.Namespace, **more: Any) -> T:
    """Returns settings with the arguments given, and *more*; else they have their defaults."""
    names = (each.name for each in fields(settings))  # type: ignore[arg-type]  # a dataclass
    given = {name: getattr(parsed, name) for name in names} | more
    return settings(**{name: value for name, value in given.items() if value is not None})


def check(settings: Any) -> None:
    """Raises BadConfiguration that names the argument when a value is not valid."""
    for each in _declared(type(settings)):
        value, value_check = getattr(settings, each.name), each.metadata["check"]
        if value_check is None or value is None:
            continue
        repeated = each.metadata["given"].get("action") == "append"
        for one in value if repeated else (value,):
            check_value(_flag(each), one, value_check)


def check_value(flag: str, value: Any, value_check: ValueCheck) -> None:
    """Raises BadConfiguration that names the argument when its value is not valid."""
    try:
        value_check(value)
    except ValueError as error:
        raise errors.BadConfiguration(f"{flag}: {error}") from error


def bounds(least: float, most: float) -> ValueCheck:
    def check_value(value: float) -> None:
        if not least <= value <= most:
            raise ValueError(f"it must be {least} to {most}, not {value}")

    return check_value


def rate(group: str | None = None) -> Any:
    """Returns the field of a limit in messages a second."""
    return argument(
        f"messages a second at most, in bursts of up to {CHUNK_MESSAGES}",
        type=float,
        metavar="N",
        group=group,
        check=bounds(0.001, 1_000_000_000),
    )


def queue_name(queue: str) -> None:
    if not rules.is_queue_name(queue):
        raise ValueError(f'"{queue}" is no name of a queue')


def stored_name(queue: str) -> None:
    """Checks a name as archives have it."""
    queue_name(queue.removeprefix(rules.TOPIC_PREFIX))


def _declared(settings: type[Any]) -> list[Field[Any]]:
    return [each for each in fields(settings) if each.metadata]


def _flag(declared: Field[Any]) -> str:
    return declared.metadata["flag"] or "--" + declared.name.replace("_", "-")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of all jobs."""
    where = parser.add_argument_group("where")
    where.add_argument("--storage", metavar="URI", help="the store (ZAQAR_REDIS_URI)")
    where.add_argument("--control", metavar="URI", help="the control store (that of --storage)")
    where.add_argument("--project", default="default", help="whose queues (default)")
    spark = parser.add_argument_group("Spark")
    spark.add_argument(
        "--master", help="where to run, e.g. local[2] or spark://host:7077 (SPARK_MASTER; local[*])"
    )
    spark.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_setting,
        help="a setting of Spark; may be given more than once",
    )
    spark.add_argument(
        "--priority",
        choices=(LOW, NORMAL),
        default=LOW,
        help="low: other processes of this machine come first, e.g. the service (with a local "
        "--master only; low, of migrate normal)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--no-progress", action="store_true", dest="quiet", help="do not show progress"
    )


def add_queues(
    parser: argparse.ArgumentParser, default: str | None = None, *, topics: bool = False
) -> argparse._MutuallyExclusiveGroup:
    """Adds the arguments that select queues, or *topics*; *default* says which, where none need
    be given.
    """
    parser.set_defaults(topic=None)
    one = parser.add_mutually_exclusive_group(required=default is None)
    one.add_argument(
        "--queue",
        action="append",
        metavar="QUEUE",
        help="a queue; may be given more than once" + (f" ({default})" if default else ""),
    )
    if topics:
        one.add_argument(
            "--topic", action="append", metavar="TOPIC", help="a topic; may be given more than once"
        )
    one.add_argument(
        "--pattern",
        help=f"{'all ' if default is None else ''}queues whose whole name matches, "
        "e.g. 'orders-.*'",
    )
    return one


def store_options(parsed: argparse.Namespace) -> dict[str, str]:
    """Returns the options of the data source that select the store and the project."""
    given = {"uri": parsed.storage, "controlUri": parsed.control, "project": parsed.project}
    return {name: text for name, text in given.items() if text is not None}


def part_options(spark: SparkSession, source: Mapping[str, str]) -> dict[str, str]:
    """Returns the options for reads of a part of *source*: all but those that select queues.

    The planner of the source does not know Spark's cores.
    """
    tasks = {"minPartitions": str(spark.sparkContext.defaultParallelism)}
    return tasks | {name: text for name, text in source.items() if name.lower() not in SELECTING}


def source_options(parsed: argparse.Namespace) -> dict[str, str]:
    """Returns those options, and the ones that select queues, after `add_queues`."""
    options = store_options(parsed)
    if parsed.queue:
        options["subscribe"] = ",".join(parsed.queue)
    if parsed.topic:
        options |= {"kind": TOPIC, "subscribe": ",".join(parsed.topic)}
    if parsed.pattern is not None:
        options["subscribePattern"] = parsed.pattern
    return options


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text}: it must be like spark.name=value")
    return name, value
