# SPDX-License-Identifier: Apache-2.0
"""What the gate runs, and what only ``tools/test --all`` does: tests with the mark `nightly`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

#: Folders of which every test has the mark.
NIGHTLY = ("tests/benchmarks/", "tests/chaos/", "tests/spark_faults/")


def in_gate(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """Returns parameters: the gate has those that are *chosen*, by default the first one."""
    values = list(values)
    chosen = chosen or (values[0],)
    return [
        value if value in chosen else pytest.param(value, marks=pytest.mark.nightly)
        for value in values
    ]
