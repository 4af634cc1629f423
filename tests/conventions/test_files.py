# SPDX-License-Identifier: Apache-2.0
"""What every source file must have, and what none may have."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conventions.files import ROOT, is_python, text_of, written

_LICENCE = "# SPDX-License-Identifier: Apache-2.0"

#: Behind comments.  Not by `ast`, which takes ten seconds for all files.
_DOCSTRING = re.compile(r'(?:#.*\n|[ \t]*\n)*r?"""')

#: Home, working and scratch folders of the machine of an author.
_MACHINE = re.compile(r"(?<![\w.])/(?:home|Users|root|tmp|work)/[\w.]")

#: The package is installed from a checkout: pip install '.[spark]'.
_UNPUBLISHED = re.compile(r"install\s+(?:-\S+\s+)*['\"]?zaqar[-_]redis\b")


def test_every_python_file_has_a_licence_and_a_docstring() -> None:
    lacking = []
    for path in filter(is_python, written()):
        text = text_of(path)
        if not text and path.name == "__init__.py" and "tests" in path.parts:
            continue
        first = [line for line in text.splitlines() if not line.startswith("#!")][:1]
        if first != [_LICENCE] or not _DOCSTRING.match(text):
            lacking.append(str(path.relative_to(ROOT)))
    assert lacking == []


def test_every_lua_file_begins_with_a_comment() -> None:
    files = [path for path in written() if path.suffix == ".lua"]
    assert files
    assert [path.name for path in files if not text_of(path).startswith("-- ")] == []


def test_no_file_contains_a_path_of_the_authors_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in written()
        for match in _MACHINE.finditer(text_of(path))
    ]
    assert found == []


def test_no_file_installs_the_unpublished_package_by_name() -> None:
    own = Path(__file__).name
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in written()
        if path.name != own
        for match in _UNPUBLISHED.finditer(text_of(path))
    ]
    assert found == []


def test_install_commands_of_the_unpublished_package_are_found() -> None:
    package = "zaqar-" + "redis"
    for words in ("", "-U ", "--upgrade '", "-q -U '", '"'):
        assert _UNPUBLISHED.search(f"pip install {words}{package}[spark]")
    assert not _UNPUBLISHED.search("pip install '.[spark]'")


def test_machine_paths_are_found() -> None:
    for folders in (["home", "jane", "src"], ["Users", "jane"], ["root", ".cache"]):
        assert _MACHINE.search("see /" + "/".join(folders))
    for innocent in ("/v2/queues/home", "unix:///run/redis.sock", "a/home/b", "/var/lib/x"):
        assert not _MACHINE.search(innocent)
