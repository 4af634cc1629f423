# SPDX-License-Identifier: Apache-2.0
"""The last release before buses, Sentinel and Cluster, taken from the history of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conventions.files import ROOT

#: Its commit.
PREVIOUS = "c147fd3ac9b256b9aac4e419b04737c2be43643d"


def extract_previous(folder: Path) -> None:
    """Extracts its code and its tests, fetching them if the clone is a shallow one.

    Raises RuntimeError when they cannot be had.
    """
    archive = folder / "previous.tar"
    extract = ("archive", "-o", str(archive), PREVIOUS, "zaqar_redis", "tests")
    told = _git(*extract)
    if told.returncode:
        _git("fetch", "--quiet", "--depth", "1", "origin", PREVIOUS)
        told = _git(*extract)
    if told.returncode:
        raise RuntimeError(
            f"the release before is the commit {PREVIOUS}, which this clone lacks; get the whole "
            f"history with `git fetch --unshallow`: {told.stderr.strip()}"
        )
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    archive.unlink()


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)


def environment(folder: Path) -> dict[str, str]:
    """Returns the variables with which processes in *folder* run the code that is there."""
    return os.environ | {"PYTHONPATH": str(folder)}


def run_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a module of the release in *folder*."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
    )
