# SPDX-License-Identifier: Apache-2.0
"""The sources of installed releases of other projects, with their tests."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest


def unpacked(name: str, config: pytest.Config, folder: Path) -> Path:
    """Returns the folder of the sources, below *folder*; what was downloaded is kept."""
    release = f"{name}=={version(name)}"
    downloads = config.cache.mkdir(release)
    if not any(downloads.glob("*.tar.gz")):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        pip += ["--no-binary", name, "--dest", str(downloads), release]
        subprocess.run(pip, check=True, timeout=120)
    (archive,) = downloads.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (source,) = [path for path in folder.iterdir() if path.is_dir()]
    return source
