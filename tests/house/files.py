# SPDX-License-Identifier: Apache-2.0
"""The files of this project, for tests that read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "zaqar_redis"

#: Folders that hold what people wrote; everything else beside them is made.
_WRITTEN = (
    ".ci",
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
    """Every file that belongs to the project."""
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for folder in _WRITTEN:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and not _MADE.intersection(path.parts):
                yield path


def text_of(path: Path) -> str:
    """The text of a file; of one that is no text, nothing."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def is_python(path: Path) -> bool:
    first, *_ = text_of(path).split("\n", 1)
    return path.suffix == ".py" or (first.startswith("#!") and "python" in first)


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package by its dotted name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path
