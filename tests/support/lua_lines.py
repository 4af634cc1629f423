# SPDX-License-Identifier: Apache-2.0
"""Which lines of the Lua scripts the tests ran; a part of tools/coverage.

Each line that begins a statement gets a marker, which logs the name and number of the line at
the level *debug*: that changes no key, and is allowed in every script. tools/coverage puts the
lines from the logs of all servers into files, one ``name:line`` per line.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_TOKEN = re.compile(
    r"""--[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|\w+|\n|\.\.\.|[^\s\w]""",
)
_CONTINUES = {"end", "else", "elseif", "until", "then", "do", "and", "or", "not"}
_UNFINISHED = {"and", "or", "not", "return", "local", "in", "if", "elseif", "while", "until", "for"}


def statements(source: str) -> Iterator[int]:
    """Yields the numbers of the lines that begin a statement, from 1."""
    line, depth, before, first = 1, 0, "", True
    for token in _TOKEN.findall(source):
        if token == "\n":
            line, first = line + 1, True
            continue
        if token.startswith("--"):
            continue
        begins = re.match(r"[a-z_A-Z]", token) and token not in _CONTINUES
        complete = before not in _UNFINISHED and not re.fullmatch(r"[-=,+*/%^#<>~.:({\[]", before)
        if first and not depth and begins and complete:
            yield line
        depth += (token in "([{") - (token in ")]}")
        before, first = token, False


def mark(folder: Path) -> None:
    """Puts markers into all scripts below *folder*, on the lines that they report."""
    for path in folder.rglob("*.lua"):
        lines = path.read_text().splitlines(keepends=True)
        for number in statements("".join(lines)):
            text = lines[number - 1]
            marker = f"redis.log(redis.LOG_DEBUG, 'lua-line {path.stem}:{number}'); "
            indent = len(text) - len(text.lstrip())
            lines[number - 1] = text[:indent] + marker + text[indent:]
        path.write_text("".join(lines))


def lua_report(folder: Path, ran: set[str]) -> str:
    """Returns how many lines of the scripts below *folder* are in *ran*, and which are not."""
    total, missing = 0, []
    for path in sorted(folder.rglob("*.lua")):
        lines = list(statements(path.read_text()))
        missed = [str(number) for number in lines if f"{path.stem}:{number}" not in ran]
        total += len(lines)
        if missed:
            missing.append((path.name, missed))
    covered = total - sum(len(missed) for _, missed in missing)
    report = f"Lua: {covered} of {total} lines ({_percent(covered, total)})\n"
    return report + "".join(f"    {name} lacks {' '.join(missed)}\n" for name, missed in missing)


def python_report(report: Path) -> str:
    """Returns lines and branches of each package, from what ``coverage json`` wrote."""
    packages: dict[str, Counter[str]] = {}
    for name, file in json.loads(report.read_text())["files"].items():
        parts = Path(name).parts
        root = next(i for i, part in enumerate(parts) if part in ("zaqar_redis", "pyspark_zaqar"))
        package = "/".join(parts[root : root + 2]) if len(parts) > root + 2 else parts[root]
        for key in (package, "all"):
            packages.setdefault(key, Counter()).update(
                {field: n for field, n in file["summary"].items() if isinstance(n, int)}
            )
    rows = [f"{'package':<28} {'lines':>14} {'branches':>22}"]
    for package in sorted(packages, key=lambda name: (name == "all", name)):
        counts = packages[package]
        lines = (counts["covered_lines"], counts["num_statements"])
        branches = (counts["covered_branches"], counts["num_branches"])
        rows.append(
            f"{package:<28} {lines[0]:>6}/{lines[1]:<6} {_percent(*lines):>7}"
            f" {branches[0]:>6}/{branches[1]:<6} {_percent(*branches):>7}"
        )
    return "\n".join(rows) + "\n"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / (whole or 1):.2f}%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["mark", "report"])
    parser.add_argument("scripts", type=Path, help="folder of the scripts")
    parser.add_argument("--ran", type=Path, help="folder of files with lines that ran")
    parser.add_argument("--python", type=Path, help="what `coverage json` wrote")
    options = parser.parse_args()
    if options.command == "mark":
        mark(options.scripts)
    else:
        ran = {line for file in options.ran.iterdir() for line in file.read_text().split()}
        print(python_report(options.python) + lua_report(options.scripts, ran), end="")


if __name__ == "__main__":
    main()
