# SPDX-License-Identifier: Apache-2.0
"""Centrifugo's SDKs work with this server unchanged: their own tests say so."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests import servers

#: What centrifuge-python's tests want, as its own configuration of Centrifugo has it.
_MAY: dict[str, object] = {
    "history_ttl": 300,
    "force_recovery": True,
    "allow_publish_for_subscriber": True,
    "allow_history_for_subscriber": True,
}
OPTIONS: dict[str, dict[str, object]] = {
    "channels": _MAY
    | {
        "token_hmac_secret_key": "secret",
        "presence": True,
        "join_leave": True,
        "force_push_join_leave": True,
        "history_size": 100,
        "allow_presence_for_subscriber": True,
        "user_personal_channel": True,
        "namespaces": "smallhistory",
    },
    "channels:smallhistory": _MAY | {"history_size": 2},
}


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of centrifuge-python, with its tests; the release that is installed."""
    folder = tmp_path_factory.mktemp("sdk")
    release = f"centrifuge-python=={version('centrifuge-python')}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "--dest", str(folder), release], check=True, timeout=120)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (source,) = [path for path in folder.iterdir() if path.is_dir()]
    return source


@pytest.fixture(scope="module")
def channels(redis_server: servers.RedisServer) -> Iterator[servers.Service]:
    with servers.service(redis_server.uri, workers=2, options=OPTIONS) as running:
        yield running


@pytest.mark.timeout(240)
def test_centrifuge_python_is_content(sdk: Path, channels: servers.Service) -> None:
    for path in (sdk / "tests").glob("*.py"):
        text = path.read_text()
        path.write_text(re.sub(r"localhost:8000", f"localhost:{channels.port}", text))
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "tests.test_client"],
        cwd=sdk,
        capture_output=True,
        text=True,
        timeout=220,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ran = re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
    assert ran
    assert int(ran[1]) >= 62
    assert "skipped" not in done.stderr.splitlines()[-1]
