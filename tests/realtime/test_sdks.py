# SPDX-License-Identifier: Apache-2.0
"""Centrifugo's SDKs work with this server unchanged: their own tests pass."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from centrifuge import Client, DeltaType, codecs
from centrifuge.fossil import apply_delta

from tests.realtime.sdk_client import IGNORE_UNCLOSED_SOCKETS, SECRET, SubscriptionRecorder, token
from tests.support import fixtures, processes, servers

pytestmark = IGNORE_UNCLOSED_SOCKETS

#: The options that centrifuge-python's tests need, as in its configuration of Centrifugo.
_MAY: dict[str, object] = {
    "history_ttl": 300,
    "force_recovery": True,
    "allow_publish_for_subscriber": True,
    "allow_history_for_subscriber": True,
    "allowed_delta_types": "fossil",
    "delta_publish": True,
}
OPTIONS: dict[str, dict[str, object]] = {
    "channels": _MAY
    | {
        "token_hmac_secret_key": "secret",
        "token_hmac_previous_secret_key": SECRET,  # used by this project's tests
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
def sdk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the installed release of centrifuge-python, with its tests."""
    release = f"centrifuge-python=={version('centrifuge-python')}"
    # Kept for the next run: for its metadata pip also installs what it is built with, of which
    # it may take wheels.
    downloads = request.config.cache.mkdir(release)
    if not any(downloads.glob("*.tar.gz")):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        pip += ["--no-binary", "centrifuge-python", "--dest", str(downloads), release]
        subprocess.run(pip, check=True, timeout=120)
    (archive,) = downloads.glob("*.tar.gz")
    folder = tmp_path_factory.mktemp("sdk")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (source,) = [path for path in folder.iterdir() if path.is_dir()]
    return source


channels = fixtures.service(OPTIONS, workers=2)


@pytest.mark.timeout(240)
def test_centrifuge_python_test_suite_passes(sdk: Path, channels: servers.RunningService) -> None:
    for path in (sdk / "tests").glob("*.py"):
        text = path.read_text()
        path.write_text(re.sub(r"localhost:8000", f"localhost:{channels.port}", text))
    done = _run(sdk)
    assert _number(done.stdout, "passed") + _number(done.stdout, "failed") >= 62
    assert _number(done.stdout, "skipped") == 0
    # One test does not wait until it is subscribed, and may miss what it waits for: on a
    # busy machine it needs another try.
    for _ in range(2):
        if done.returncode:
            done = _run(sdk, "--last-failed")
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("binary", [False, True])
async def test_centrifuge_python_reads_publications_from_deltas(
    channels: servers.RunningService, monkeypatch: pytest.MonkeyPatch, binary: bool
) -> None:
    applied = []

    def apply(source: bytes, delta: bytes) -> bytes:
        applied.append(delta)
        return bytes(apply_delta(source, delta))

    monkeypatch.setattr(codecs, "apply_delta", apply)
    texts = [json.dumps({"n": n, "text": "é" * 100}, ensure_ascii=False) for n in range(4)]
    values = [text.encode() if binary else json.loads(text) for text in texts]
    events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    format_ = "format=protobuf" if binary else "format=json"
    url = f"ws://127.0.0.1:{channels.port}/connection/websocket?{format_}"
    client = Client(url, token=token("ann"), use_protobuf=binary)
    channel = f"deltas{binary}"
    subscription = client.new_subscription(
        channel,
        SubscriptionRecorder(events),
        token=token("ann", channel=channel),
        delta=DeltaType.FOSSIL,
    )
    await client.connect()
    await subscription.subscribe()
    await subscription.ready(timeout=60)
    for value in values:
        await subscription.publish(value)
        assert (await asyncio.wait_for(events.get(), 60))[1] == value
    await client.disconnect()
    assert len(applied) == 3
    assert max(map(len, applied)) < 40


def _run(sdk: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # Helpers that pytest takes for tests.
    helpers = ("test_get_client_token", "test_get_subscription_token")
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--timeout", "20", *options),
        *(f"--deselect=tests/test_client.py::{name}" for name in helpers),
        "tests/test_client.py",
    ]
    return processes.run(command, timeout=220, cwd=sdk)


def _number(output: str, what: str) -> int:
    """Returns the number of tests in the summary line."""
    found = re.search(rf"(\d+) {what}", output.splitlines()[-1])
    return int(found[1]) if found else 0
