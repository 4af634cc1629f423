# SPDX-License-Identifier: Apache-2.0
"""Imports go to lower layers only, and each library is imported by its packages only."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conventions.files import PACKAGE, ROOT, modules

#: Packages by layer, the lowest first. A package may use its own and those of lower layers.
LAYERS = (
    (
        *("records", "pool_records", "check_records", "figures", "formats", "rules"),
        *(
            "message_fields",
            "metadata_rules",
            "retry_policies",
            "schedules",
            "schedule_records",
            "cron",
            "errors",
            "clock",
            "garbage_collection",
            "rate_limiter",
            "repeated_lines",
            "runner",
            "sizing",
        ),
    ),
    ("metrics",),
    ("keyspace", "auth"),
    ("storage", "realtime"),
    ("service",),
    ("notify",),
    ("api", "backup", "spark", "zaqar_import", "zaqar_plugin"),
    ("benchmarks", "conf"),
    ("cli",),
)
LAYER = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}

#: Layers inside a package, in the same order. Those of one layer may use each other.
INNER = {
    "realtime": (
        ("bus", "engine", "protocol"),
        ("buses", "session"),
        ("engines", "load"),
        ("node",),
    ),
    "spark": (
        (
            *("options", "attributes", "columns", "offsets", "stores", "permissions", "task"),
            *("positions", "task_progress"),
        ),
        ("reading", "writing", "queue_restore"),
        ("source",),
        ("jobs",),
    ),
    "storage": (
        (
            *("administration", "contract", "control", "deliveries", "figures", "subscriptions"),
            *("formats", "transfer", "load", "watched"),
        ),
        ("redis",),
        ("move", "pools"),
    ),
}

#: Library -> packages that may import it; a name that ends with a dot includes its modules.
ALLOWED = {
    "aiosmtplib": ("notify.mail.smtp.",),
    "aiohttp": ("notify.",),
    "yarl": ("notify.",),
    "cronsim": ("cron.",),
    "redis": ("keyspace.", "storage.redis."),
    "hiredis": ("keyspace.", "storage.redis."),
    "fakeredis": ("keyspace.",),
    "falcon": ("api.",),
    "http_message_signatures": ("auth.",),
    "keystoneauth1": ("auth.keystone_tokens.", "auth.keystone_trusts."),
    "keystonemiddleware": ("auth.keystone_tokens.",),
    "oslo_config": (
        *("auth.keystone_tokens.", "auth.keystone_trusts.", "auth.policy."),
        *("conf.", "cli.", "zaqar_plugin."),
    ),
    "oslo_context": ("api.problems.",),
    "oslo_log": ("conf.logs.", "cli.service_log."),
    "oslo_policy": ("auth.policy.", "conf."),
    "zaqar": ("zaqar_plugin.",),
    "cliff": ("cli.",),
    "opentelemetry": ("api.tracing.",),
    "prometheus_client": ("metrics.",),
    "pyspark": ("spark.", "cli.pipeline."),
    "pyarrow": ("spark.",),
    "py4j": ("spark.", "cli.pipeline."),
    "deltalake": ("spark.jobs.",),
    "jinja2": ("spark.jobs.",),
    "matplotlib": ("spark.jobs.",),
    "numpy": ("spark.",),
    "gunicorn": ("api.server.master.", "api.server.worker.", "cli."),
    "jump": ("realtime.buses.",),
    "nats": ("realtime.buses.nats.",),
    "jwt": ("auth.",),
    "google": ("realtime.protocol.protobuf.",),
    "websockets": ("api.server.sockets.",),
    "zmq": tuple(
        f"realtime.buses.zeromq{part}." for part in ("", "_broker", "_connection", "_keys")
    ),
    "uvicorn": ("api.server.", "cli."),
    "uvicorn_worker": ("api.server.worker.", "cli."),
}

#: Packages whose modules name each other's types.
CIRCLES = {"zaqar_redis.realtime.node", "zaqar_redis.realtime.session"}

#: What only bulk readers and writers use.
_BULK = "zaqar_redis.storage.redis.bulk"


@functools.cache  # several tests ask for all modules
def imports(name: str, path: Path) -> tuple[str, ...]:
    """Returns the dotted names that a module imports, in functions too."""
    return tuple(_imports(name, path.read_text(), path.name == "__init__.py"))


def _imports(name: str, source: str, is_package: bool) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = name.split(".")
            above = base[: len(base) - node.level + is_package] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def wrong(name: str, imported: str) -> str | None:
    """Returns what is wrong with the import; None when it is allowed."""
    own = name.removeprefix("zaqar_redis").removeprefix(".")
    library = imported.split(".")[0]
    if library in ALLOWED and not f"{own}.".startswith(ALLOWED[library]):
        return f"{name} may not import {library}"
    if library != "zaqar_redis" or not own:
        return None
    package, other = own.split(".")[0], imported.split(".")[1:2]
    if not other or other == [package]:
        return _across(name, own, imported)
    if other[0] not in LAYER:
        return f"{imported}, which {name} imports, is in no layer"
    ground = LAYER[package] == LAYER[other[0]] == 0
    if LAYER[other[0]] >= LAYER[package] and not ground:
        return f"{name} imports {imported}, which is not below it"
    return _across(name, own, imported)


def _across(name: str, own: str, imported: str) -> str | None:
    """Only the packages of Spark and of stock Zaqar, with their own event loop or none, may
    import the Redis driver; all others use the contract."""
    if imported.startswith("zaqar_redis.storage.redis") and not own.startswith(
        ("spark", "storage.redis", "zaqar_plugin")
    ):
        return f"{name} imports a driver, {imported}"
    if imported.startswith(_BULK) and not own.startswith(("spark", "storage.redis.bulk")):
        return f"{name} imports {imported}, which is for Spark only"
    return _within(name, own, imported)


def _within(name: str, own: str, imported: str) -> str | None:
    """Checks the layers inside a package that has some."""
    package, _, inside = own.partition(".")
    layers = INNER.get(package)
    other = imported.split(".")[2:3]
    if layers is None or not inside or imported.split(".")[1] != package or not other:
        return None
    level = {each: number for number, each_layer in enumerate(layers) for each in each_layer}
    module, other_module = inside.split(".")[0], other[0]
    if module not in level or other_module not in level:
        return f"{package} has no layer for {module if module not in level else other_module}"
    if level[other_module] > level[module]:
        return f"{name} imports {imported}, which is not below it"
    return None


def test_imports_go_to_lower_layers_only() -> None:
    found = [
        problem
        for name, path in modules()
        for imported in imports(name, path)
        if (problem := wrong(name, imported))
    ]
    assert found == []


def test_only_sessions_and_nodes_are_circles_of_types() -> None:
    known = dict(modules())
    graph = {
        name: {
            imported if imported in known else imported.rpartition(".")[0]
            for imported in imports(name, path)
        }
        - {name}
        for name, path in known.items()
    }

    def reachable(name: str) -> set[str]:
        found: set[str] = set()
        waiting = [name]
        while waiting:
            new = graph.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    circular = {name for name in known if name in reachable(name)}
    assert {name.rpartition(".")[0] for name in circular} == CIRCLES


def test_every_package_belongs_to_a_layer() -> None:
    packages = {name.split(".")[1] for name, _ in modules() if "." in name}
    assert packages - set(LAYER) == set()


def test_the_document_has_every_package_in_its_layer() -> None:
    text = (ROOT / "doc/architecture.md").read_text()
    rows = re.findall(r"^\| (\d) \| `(\w+)/` \|", text, re.M)
    packages = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    assert sorted(rows) == sorted((str(LAYER[name] + 1), name) for name in packages)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("zaqar_redis.keyspace.keys", "from zaqar_redis.storage import contract"),
        ("zaqar_redis.keyspace.keys", "import zaqar_redis.api.app"),
        ("zaqar_redis.service.queues", "from ..storage.redis import create"),
        ("zaqar_redis.storage.load", "from zaqar_redis.storage.redis import create"),
        ("zaqar_redis.storage.contract", "def f():\n    from zaqar_redis.storage import redis"),
        ("zaqar_redis.storage.redis.queues", "from zaqar_redis.storage.pools import router"),
        ("zaqar_redis.storage.redis.claims", "from zaqar_redis.storage.redis.bulk import ledger"),
        ("zaqar_redis.zaqar_plugin.stores", "from zaqar_redis.storage.redis.bulk import ranges"),
        ("zaqar_redis.realtime.session.session", "from zaqar_redis.realtime.node import packing"),
        ("zaqar_redis.spark.reading.batch", "from zaqar_redis.spark.jobs import session"),
        ("zaqar_redis.auth.signed_urls", "from zaqar_redis.service import queues"),
        ("zaqar_redis.service.queues", "import redis.asyncio"),
        ("zaqar_redis.service.queues", "from falcon import App"),
        ("zaqar_redis.api.app", "from oslo_config import cfg"),
        ("zaqar_redis.api.app", "import uvicorn"),
        ("zaqar_redis.rules", "from zaqar_redis.nowhere import something"),
    ],
)
def test_import_of_a_higher_layer_is_found(name: str, source: str) -> None:
    assert [wrong(name, imported) for imported in _imports(name, source, False)] != [None]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("zaqar_redis.cli.serve", "from zaqar_redis.api.app import App"),
        ("zaqar_redis.rules", "from zaqar_redis import errors"),
        ("zaqar_redis.storage.redis.feed", "from redis.asyncio.client import PubSub"),
        ("zaqar_redis.api.server.worker", "from uvicorn_worker import UvicornWorker"),
        ("zaqar_redis.service.claims", "from . import messages"),
    ],
)
def test_import_of_a_lower_layer_is_accepted(name: str, source: str) -> None:
    assert [wrong(name, imported) for imported in _imports(name, source, False)] == [None]
