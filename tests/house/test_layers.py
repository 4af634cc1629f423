# SPDX-License-Identifier: Apache-2.0
"""Imports only go down, and each library has its room."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.files import modules

#: Rooms by floor, the ground first. A room may use its own and those below.
FLOORS = (
    ("records", "rules", "errors", "clock", "runner"),
    ("keyspace", "auth"),
    ("storage", "realtime"),
    ("service",),
    ("conf", "api", "bench", "spark", "stock", "upstream"),
    ("cli",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

#: Who may import what; a name ends with a dot when all below it may.
ALLOWED = {
    "redis": ("keyspace.", "storage.drivers.redis."),
    "hiredis": ("keyspace.", "storage.drivers.redis."),
    "fakeredis": ("keyspace.",),
    "falcon": ("api.", "bench."),
    "oslo_config": ("conf.", "cli.", "upstream."),
    "zaqar": ("upstream.",),
    "cliff": ("cli.",),
    "pyspark": ("spark.", "cli.pipeline."),
    "pyarrow": ("spark.",),
    "py4j": ("spark.", "cli.pipeline."),
    "deltalake": ("spark.jobs.",),
    "pyiceberg": ("spark.jobs.",),
    "matplotlib": ("spark.jobs.",),
    "numpy": ("spark.",),
    "gunicorn": ("api.worker.", "cli.", "bench."),
    "jump": ("realtime.engines.",),
    "jwt": ("auth.",),
    "google": ("realtime.protobuf.",),
    "websockets": ("api.sockets.",),
    "uvicorn": ("api.worker.", "api.sockets.", "cli.", "bench."),
    "uvicorn_worker": ("api.worker.", "cli.", "bench."),
}


def imports(name: str, source: str, is_package: bool) -> Iterator[str]:
    """Dotted names that a module imports, wherever in it that stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = name.split(".")
            above = base[: len(base) - node.level + is_package] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def wrong(name: str, imported: str) -> str | None:
    """What is wrong with the import; None when it is fine."""
    own = name.removeprefix("zaqar_redis").removeprefix(".")
    library = imported.split(".")[0]
    if library in ALLOWED and not f"{own}.".startswith(ALLOWED[library]):
        return f"{name} may not import {library}"
    if library != "zaqar_redis" or not own:
        return None
    room, other = own.split(".")[0], imported.split(".")[1:2]
    if not other or other == [room]:
        return _across(name, own, imported)
    if other[0] not in FLOOR:
        return f"{imported}, which {name} imports, is on no floor"
    ground = FLOOR[room] == FLOOR[other[0]] == 0
    if FLOOR[other[0]] >= FLOOR[room] and not ground:
        return f"{name} imports {imported}, which is not below it"
    return _across(name, own, imported)


def _across(name: str, own: str, imported: str) -> str | None:
    """Drivers are reached through the contract only, but by stock Zaqar's and by Spark's
    rooms, which have a loop of their own, or none."""
    drivers = "zaqar_redis.storage.drivers"
    if imported.startswith(drivers) and not own.startswith(
        ("spark", "storage.drivers", "upstream")
    ):
        return f"{name} imports a driver, {imported}"
    return None


def test_imports_only_go_down() -> None:
    found = [
        problem
        for name, path in modules()
        for imported in imports(name, path.read_text(), path.name == "__init__.py")
        if (problem := wrong(name, imported))
    ]
    assert found == []


def test_every_room_stands_on_a_floor() -> None:
    rooms = {name.split(".")[1] for name, _ in modules() if "." in name}
    assert rooms - set(FLOOR) == set()


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("zaqar_redis.keyspace.keys", "from zaqar_redis.storage import driver"),
        ("zaqar_redis.keyspace.keys", "import zaqar_redis.api.app"),
        ("zaqar_redis.service.queues", "from ..storage.drivers.redis import create"),
        ("zaqar_redis.storage.load", "from zaqar_redis.storage.drivers import redis"),
        ("zaqar_redis.storage.driver", "def f():\n    from zaqar_redis.storage import drivers"),
        ("zaqar_redis.auth.signed", "from zaqar_redis.service import queues"),
        ("zaqar_redis.service.queues", "import redis.asyncio"),
        ("zaqar_redis.service.queues", "from falcon import App"),
        ("zaqar_redis.api.app", "from oslo_config import cfg"),
        ("zaqar_redis.api.app", "import uvicorn"),
        ("zaqar_redis.rules", "from zaqar_redis.nowhere import something"),
    ],
)
def test_an_import_that_does_not_go_down_is_found(name: str, source: str) -> None:
    assert [wrong(name, imported) for imported in imports(name, source, False)] != [None]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("zaqar_redis.cli.serve", "from zaqar_redis.api.app import App"),
        ("zaqar_redis.rules", "from zaqar_redis import errors"),
        ("zaqar_redis.storage.drivers.redis.feed", "from redis.asyncio.client import PubSub"),
        ("zaqar_redis.api.worker", "from uvicorn_worker import UvicornWorker"),
        ("zaqar_redis.service.claims", "from . import messages"),
    ],
)
def test_an_import_that_goes_down_is_fine(name: str, source: str) -> None:
    assert [wrong(name, imported) for imported in imports(name, source, False)] == [None]
