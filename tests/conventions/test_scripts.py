# SPDX-License-Identifier: Apache-2.0
"""Every Lua script compiles in Redis, and its keys and arguments have names."""

from __future__ import annotations

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
    ScheduleKeys,
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
    ScheduleKeys,
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
        name for _, path in modules() for name in re.findall(r'\bScript\("(\w+)"', path.read_text())
    )


@pytest.fixture(scope="module", params=[servers.REDIS, servers.VALKEY])
def client(request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    with servers.redis_server(request.param) as server, server.client() as connected:
        yield connected


def test_server_compiles_every_script_and_computes_the_same_sha(client: redis.Redis) -> None:
    scripts = {name: Script(name) for name in NAMES}
    shas = {name: client.script_load(script.source) for name, script in scripts.items()}
    assert shas == {name: script.sha for name, script in scripts.items()}


def test_every_key_and_argument_has_a_name() -> None:
    found = {name: unnamed((LUA / f"{name}.lua").read_text()) for name in NAMES}
    assert {name: uses for name, uses in found.items() if uses} == {}


def unused(script: Script) -> list[str]:
    code = re.sub(r"--.*", "", script.source)
    names = (*script.keys, *script.args)
    return [each for each in names if len(re.findall(rf"\b{each}\b", code)) == 1]


def test_every_name_is_used() -> None:
    found = {name: unused(Script(name)) for name in NAMES}
    assert {name: names for name, names in found.items() if names} == {}


def test_every_key_name_is_a_slot_of_the_key_classes() -> None:
    known = {slot for kind in KINDS for slot in kind.__slots__}
    assert {key for name in NAMES for key in Script(name).keys} - known == set()


def test_scripts_begin_with_a_comment_and_have_their_includes_resolved() -> None:
    sources = {name: Script(name).source for name in NAMES}
    assert [name for name, source in sources.items() if not re.match(r"-- [A-Z]", source)] == []
    assert [name for name, source in sources.items() if "--#" in source] == []


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
