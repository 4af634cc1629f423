# SPDX-License-Identifier: Apache-2.0
"""A class name is borne by one class of a distribution: a search for it finds one.

The client has its own, as its users see nothing of the service.
"""

from __future__ import annotations

import re
from collections import defaultdict

from tests.conventions.files import ROOT, written

#: Not by `ast`, which takes ten seconds for all files.
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


def test_class_names_are_borne_by_one_class_each() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in written():
        if path.suffix == ".py":
            place = path.relative_to(ROOT)
            of_client = "client/" if place.parts[0] == "client" else ""
            for name in _CLASS.findall(path.read_text()):
                found[of_client + name].append(str(place))
    assert len(found) > 500
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
