# SPDX-License-Identifier: Apache-2.0
"""The files of this project, for tests that read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "zaqar_redis"

#: Folders with sources; everything beside them is generated.
_WRITTEN = (
    ".ci",
    ".github",
    "benchmarks",
    "client",
    "deploy",
    "doc",
    "etc",
    "examples",
    "pyspark_zaqar",
    "releasenotes",
    "tests",
    "tools",
    "zaqar_redis",
)
_MADE = {"__pycache__", "_build", "build", "dist", "node_modules"}


def written() -> Iterator[Path]:
    """Yields every source file of the project."""
    # In a worktree of git, .git is a file.
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name != ".git")
    for folder in _WRITTEN:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and not _MADE.intersection(path.parts):
                yield path


def text_of(path: Path) -> str:
    """Returns the text of a file; an empty text when it is binary."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def is_python(path: Path) -> bool:
    first, *_ = text_of(path).split("\n", 1)
    return path.suffix == ".py" or (first.startswith("#!") and "python" in first)


def modules() -> Iterator[tuple[str, Path]]:
    """Yields the dotted name and path of every module of the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path
