# SPDX-License-Identifier: Apache-2.0
"""The wheel has all files of the packages: scripts, settings, Spark's data source."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conventions.files import ROOT, written

_PACKAGES = ("pyspark_zaqar", "zaqar_redis")


@pytest.mark.timeout(180)
def test_the_wheel_has_every_file(tmp_path: Path) -> None:
    copy = tmp_path / "copy"  # a build leaves folders behind
    names = [str(path.relative_to(ROOT)) for path in written()]
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*pip, str(tmp_path), str(copy)], check=True, timeout=150)
    (wheel,) = tmp_path.glob("*.whl")
    expected = {name for name in names if name.split("/")[0] in _PACKAGES}
    assert {name.split("/")[0] for name in expected} == set(_PACKAGES)
    assert expected - set(zipfile.ZipFile(wheel).namelist()) == set()
