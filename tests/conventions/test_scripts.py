# SPDX-License-Identifier: Apache-2.0
"""Every Lua script compiles in Redis, and its keys and arguments have names."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest
import redis

from tests.conventions.files import PACKAGE, modules
from tests.support import servers
from zaqar_redis.keyspace.control_keys import (
    AccessKeyKeys,
    CatalogueKeys,
    ControlKeys,
    EntryKeys,
    RoleKeys,
)
from zaqar_redis.keyspace.keys import (
    ChannelKeys,
    DedupKeys,
    FigureKeys,
    ProjectKeys,
    QueueKeys,
    RecordKeys,
    TermKeys,
)
from zaqar_redis.keyspace.routing_keys import RoutingKeys
from zaqar_redis.keyspace.script import Script

LUA = PACKAGE / "keyspace" / "lua"
KINDS = (
    AccessKeyKeys,
    ChannelKeys,
    ControlKeys,
    DedupKeys,
    EntryKeys,
    CatalogueKeys,
    FigureKeys,
    ProjectKeys,
    QueueKeys,
    RecordKeys,
    RoleKeys,
    TermKeys,
    RoutingKeys,
)
NAMES = sorted(path.stem for path in LUA.glob("*.lua"))

#: As in Python.
_LINE_LENGTH = 100
_INDEX = re.compile(r"\b(KEYS|ARGV)\[([^\]]*)\]")


def unnamed(text: str) -> list[str]:
    """Returns the uses of KEYS and ARGV that the script's signature does not name.

    Variadic arguments behind the named ones may have a computed index.
    """
    takes_rest = bool(re.search(r"^--#args .*\brest\.\.\.$", text, re.MULTILINE))
    return [
        f"{table}[{index}]"
        for line in text.splitlines()
        for table, index in _INDEX.findall(line.partition("--")[0])
        if table == "KEYS" or index.isdigit() or not takes_rest
    ]


def used_scripts() -> Counter[str]:
    """Counts how often the code creates a Script of each name."""
    return Counter(
        str(node.args[0].value)
        for _, path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Script"
        and isinstance(node.args[0], ast.Constant)
    )


@pytest.fixture(scope="module", params=[servers.REDIS, servers.VALKEY])
def client(request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    with servers.redis_server(request.param) as server, server.client() as connected:
        yield connected


@pytest.mark.parametrize("name", NAMES)
def test_server_compiles_the_script_and_computes_the_same_sha(
    client: redis.Redis, name: str
) -> None:
    script = Script(name)
    assert client.script_load(script.source) == script.sha


@pytest.mark.parametrize("name", NAMES)
def test_every_key_and_argument_has_a_name(name: str) -> None:
    assert unnamed((LUA / f"{name}.lua").read_text()) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_used(name: str) -> None:
    script = Script(name)
    code = re.sub(r"--.*", "", script.source)
    unused = [
        each for each in (*script.keys, *script.args) if len(re.findall(rf"\b{each}\b", code)) == 1
    ]
    assert unused == []


@pytest.mark.parametrize("name", NAMES)
def test_every_key_name_is_a_slot_of_the_key_classes(name: str) -> None:
    known = {slot for kind in KINDS for slot in kind.__slots__}
    assert set(Script(name).keys) <= known


@pytest.mark.parametrize("name", NAMES)
def test_script_begins_with_a_comment_and_has_its_includes_resolved(name: str) -> None:
    script = Script(name)
    assert re.match(r"-- [A-Z]", script.source)
    assert "--#" not in script.source


def test_every_script_is_used_in_one_place() -> None:
    assert used_scripts() == Counter(NAMES)


def test_every_shared_piece_is_included() -> None:
    included = {
        piece
        for path in LUA.rglob("*.lua")
        for pieces in re.findall(r"^--#include (.+)$", path.read_text(), re.MULTILINE)
        for piece in pieces.split()
    }
    assert included == {path.stem for path in LUA.glob("shared/*.lua")}


def test_shared_pieces_do_not_use_keys_and_argv() -> None:
    for path in LUA.glob("shared/*.lua"):
        assert _INDEX.findall(path.read_text()) == [], path.name


@pytest.mark.parametrize(
    "line",
    [
        "redis.call('GET', KEYS[1])",
        "local first, second = KEYS[1], KEYS[2]",
        "local n = ARGV[2] + 1",
        "return ARGV[index]",
        "--#args a rest...\nreturn KEYS[index]",
        "--#args a rest...\nreturn ARGV[2]",
    ],
)
def test_an_index_without_a_name_is_found(line: str) -> None:
    assert unnamed(f"--#keys queue\n{line}\n") != []


def test_variadic_arguments_may_have_a_computed_index() -> None:
    assert unnamed("--#args a rest...\nreturn ARGV[rest + 2 * index]\n") == []


def test_lines_of_scripts_are_not_too_long() -> None:
    long = [
        f"{path.relative_to(LUA)}:{number}"
        for path in sorted(LUA.rglob("*.lua"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > _LINE_LENGTH
    ]
    assert long == []
