# SPDX-License-Identifier: Apache-2.0
"""Builds the distributions of Python, and an environment that has nothing but one of them."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conventions.files import ROOT, written

_VENDOR = "zaqar_redis/api/console/vendor"
#: Extras that are for our own work.
_DEVELOPMENT = {"docs", "test", "test-previous"}
_CONSTRAINTS_HEAD = """\
# The versions that this release was tested with:
#     pip install --constraint constraints.txt zaqar-redis
# Made by `python -m tests.packages.distributions`, see CONTRIBUTING.md."""


def copy_of_the_sources(folder: Path, names: Iterable[str] | None = None) -> None:
    """Copies files of the project, all of them unless *names* says which: a build leaves folders
    behind."""
    for name in sources() if names is None else names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())


def sources() -> list[str]:
    """Returns the files of the project, and what tools/console-assets has added to them."""
    paths = [*written(), *sorted((ROOT / _VENDOR).iterdir())]
    return [path.relative_to(ROOT).as_posix() for path in paths]


def build(source: Path, target: Path, *words: str) -> None:
    """Builds an sdist, and a wheel from it, unless *words* are other options of build."""
    # With the setuptools of the tests: an isolated build would install it each time.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), *words]
    outcome = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=200)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def install(wheel: Path, folder: Path, name: str = "zaqar-redis") -> None:
    """Makes an environment with a wheel and with what it requires, directly or not.

    These are links to what the tests have: to install them again takes a minute.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", str(wheel)], check=True, timeout=200)
    scheme = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", scheme))
    [own] = metadata.distributions(name=name, path=[str(packages)])
    for distribution in required(own):
        for name in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}:
            link = packages / name
            if name != "__pycache__" and not link.exists():
                link.symlink_to(str(distribution.locate_file(name)))


def required(own: metadata.Distribution, extras: Iterable[str] = ()) -> list[metadata.Distribution]:
    """Returns the distributions that one with *extras* requires, with those that these require."""
    found: dict[tuple[str, frozenset[str]], metadata.Distribution] = {}
    waiting = [(own, frozenset({"", *extras}))]
    while waiting:
        distribution, wanted = waiting.pop()
        for requirement in map(Requirement, distribution.requires or ()):
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in wanted):
                continue
            key = requirement.name, frozenset({"", *requirement.extras})
            if key not in found:
                found[key] = metadata.distribution(requirement.name)
                waiting.append((found[key], key[1]))
    return list(found.values())


def constraints() -> str:
    """Returns the versions of all that users may install with the package, for pip."""
    own = metadata.distribution("zaqar-redis")
    extras = set(own.metadata.get_all("Provides-Extra", ())) - _DEVELOPMENT
    lines = {f"{canonicalize_name(each.name)}=={each.version}" for each in required(own, extras)}
    return "\n".join([_CONSTRAINTS_HEAD, *sorted(lines)]) + "\n"


if __name__ == "__main__":
    (ROOT / "constraints.txt").write_text(constraints())
