# SPDX-License-Identifier: Apache-2.0
"""What every file of this project has, and what none has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.house.files import ROOT, is_python, text_of, written

_LICENCE = "# SPDX-License-Identifier: Apache-2.0"

#: Home, working and scratch folders of whoever wrote a file.
_MACHINE = re.compile(r"(?<![\w.])/(?:home|Users|root|tmp|work)/[\w.]")

#: The package is installed from a checkout: pip install '.[spark]'.
_UNPUBLISHED = re.compile(r"install\s+(?:-\S+\s+)*['\"]?zaqar[-_]redis\b")


def test_every_python_file_has_its_licence_and_says_what_it_is_for() -> None:
    lacking = []
    for path in filter(is_python, written()):
        text = text_of(path)
        if not text and path.name == "__init__.py" and "tests" in path.parts:
            continue
        first = [line for line in text.splitlines() if not line.startswith("#!")][:1]
        if first != [_LICENCE] or not ast.get_docstring(ast.parse(text)):
            lacking.append(str(path.relative_to(ROOT)))
    assert lacking == []


def test_every_lua_file_says_what_it_does() -> None:
    files = [path for path in written() if path.suffix == ".lua"]
    assert files
    assert [path.name for path in files if not text_of(path).startswith("-- ")] == []


def test_no_file_tells_where_it_was_written() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in written()
        for match in _MACHINE.finditer(text_of(path))
    ]
    assert found == []


def test_nobody_is_told_to_install_what_is_not_published() -> None:
    own = Path(__file__).name
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in written()
        if path.name != own
        for match in _UNPUBLISHED.finditer(text_of(path))
    ]
    assert found == []


def test_installations_of_what_is_not_published_are_found() -> None:
    package = "zaqar-" + "redis"
    for words in ("", "-U ", "--upgrade '", "-q -U '", '"'):
        assert _UNPUBLISHED.search(f"pip install {words}{package}[spark]")
    assert not _UNPUBLISHED.search("pip install '.[spark]'")


def test_paths_of_a_machine_are_found() -> None:
    for folders in (["home", "jane", "src"], ["Users", "jane"], ["root", ".cache"]):
        assert _MACHINE.search("see /" + "/".join(folders))
    for innocent in ("/v2/queues/home", "unix:///run/redis.sock", "a/home/b", "/var/lib/x"):
        assert not _MACHINE.search(innocent)
