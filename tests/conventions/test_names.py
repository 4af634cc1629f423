# SPDX-License-Identifier: Apache-2.0
"""A class name is borne by one class of a distribution: a search for it finds one.

The client has its own, as its users see nothing of the service.
"""

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
                    place = path.relative_to(ROOT)
                    of_client = "client/" if place.parts[0] == "client" else ""
                    found[of_client + node.name].append(str(place))
    assert len(found) > 500
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
