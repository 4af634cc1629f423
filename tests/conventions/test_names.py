# SPDX-License-Identifier: Apache-2.0
"""A class name is borne by one class: a search for it finds one."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.conventions.files import ROOT, written


def test_class_names_are_borne_by_one_class_each() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in written():
        if path.suffix == ".py":
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))
    assert len(found) > 500
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
