# SPDX-License-Identifier: Apache-2.0
"""The packages and modules of the code, each with the first paragraph of its docstring.

``python doc/site/package_list.py`` prints the list; in the site it is the directive package-list.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "zaqar_redis"


def summary(module: Path) -> str:
    """Returns the first paragraph of a module's docstring; a module without one is an error."""
    docstring = ast.get_docstring(ast.parse(module.read_text()))
    if not docstring:
        raise ValueError(f"{module.relative_to(ROOT)} has no docstring")
    return " ".join(docstring.partition("\n\n")[0].split())


def lines() -> Iterator[str]:
    """Yields the list as reStructuredText, a section for each package."""
    for package in sorted(PACKAGE.rglob("__init__.py")):
        title = f"{package.parent.relative_to(ROOT)}/"
        yield from (title, "-" * len(title), "", summary(package), "")
        for module in sorted(package.parent.glob("*.py")):
            if module != package:
                yield from (f"``{module.name}``", f"    {summary(module)}", "")


def setup(app: Sphinx) -> dict[str, bool]:
    from sphinx.util.docutils import SphinxDirective

    class PackageList(SphinxDirective):
        def run(self) -> list[Node]:
            return self.parse_text_to_nodes("\n".join(lines()), allow_section_headings=True)

    app.add_directive("package-list", PackageList)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    print("\n".join(lines()))
