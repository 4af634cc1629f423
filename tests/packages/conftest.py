# SPDX-License-Identifier: Apache-2.0
"""The distributions of Python, built once for all tests that need them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packages import distributions


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist and with the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    distributions.copy_of_the_sources(folder / "source")
    distributions.build(folder / "source", folder / "dist")
    return folder / "dist"
