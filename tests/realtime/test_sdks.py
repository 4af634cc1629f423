# SPDX-License-Identifier: Apache-2.0
"""Centrifugo's SDKs work with this server unchanged: their own tests say so."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from centrifuge import Client, DeltaType, codecs
from centrifuge.fossil import apply_delta

from tests import servers
from tests.realtime.someone import LEFT_BEHIND, SECRET, Hears, token

pytestmark = LEFT_BEHIND

#: What centrifuge-python's tests want, as its own configuration of Centrifugo has it.
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
        "token_hmac_previous_secret_key": SECRET,  # of tests of our own
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
    done = _run(sdk)
    assert _number(done.stdout, "passed") + _number(done.stdout, "failed") >= 62
    assert _number(done.stdout, "skipped") == 0
    # One of them goes on without waiting until it is subscribed, and then waits for ever for
    # what it never asked for: on a busy machine it may need another try.
    for _ in range(2):
        if done.returncode:
            done = _run(sdk, "--last-failed")
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("binary", [False, True])
def test_it_reads_what_was_published_from_deltas(
    channels: servers.Service, monkeypatch: pytest.MonkeyPatch, binary: bool
) -> None:
    applied = []

    def apply(source: bytes, delta: bytes) -> bytes:
        applied.append(delta)
        return bytes(apply_delta(source, delta))

    monkeypatch.setattr(codecs, "apply_delta", apply)
    texts = [json.dumps({"n": n, "text": "é" * 100}, ensure_ascii=False) for n in range(4)]
    values = [text.encode() if binary else json.loads(text) for text in texts]

    async def talk() -> None:
        news: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        format_ = "format=protobuf" if binary else "format=json"
        url = f"ws://127.0.0.1:{channels.port}/connection/websocket?{format_}"
        client = Client(url, token=token("ann"), use_protobuf=binary)
        channel = f"deltas{binary}"
        subscription = client.new_subscription(
            channel, Hears(news), token=token("ann", channel=channel), delta=DeltaType.FOSSIL
        )
        await client.connect()
        await subscription.subscribe()
        await subscription.ready(timeout=60)
        for value in values:
            await subscription.publish(value)
            assert (await asyncio.wait_for(news.get(), 60))[1] == value
        await client.disconnect()

    asyncio.run(talk())
    assert len(applied) == 3
    assert max(map(len, applied)) < 40


def _run(sdk: Path, *options: str) -> subprocess.CompletedProcess[str]:
    helpers = ("test_get_client_token", "test_get_subscription_token")  # tests by name only
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--timeout", "20", *options),
            *(f"--deselect=tests/test_client.py::{name}" for name in helpers),
            "tests/test_client.py",
        ],
        cwd=sdk,
        capture_output=True,
        text=True,
        timeout=220,
    )


def _number(output: str, what: str) -> int:
    """Of tests, as the last line has it."""
    found = re.search(rf"(\d+) {what}", output.splitlines()[-1])
    return int(found[1]) if found else 0
