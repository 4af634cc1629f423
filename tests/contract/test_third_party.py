# SPDX-License-Identifier: Apache-2.0
"""A third-party storage driver: installed by pip, chosen by its scheme, served."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import processes, servers

PACKAGE = Path(__file__).parents[1] / "plugin_package"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip has installed the package."""
    source = tmp_path_factory.mktemp("source") / "package"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--no-index", "--no-build-isolation"),
            *("--target", str(target), str(source)),
        ],
        check=True,
    )
    return target


@pytest.fixture(scope="module")
def http(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    # stevedore remembers entry points by path: in a folder of our own, not the user's.
    cache = tmp_path_factory.mktemp("cache")
    environment = {"PYTHONPATH": f"{installed}", "XDG_CACHE_HOME": str(cache)}
    if inherited := os.environ.get("PYTHONPATH"):
        environment["PYTHONPATH"] += os.pathsep + inherited
    headers = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": "third-party"}
    with (
        servers.service("dict://", environment=environment) as running,
        httpx.Client(base_url=f"{running.url}/v2", headers=headers, timeout=60) as client,
    ):
        yield client


def test_messages_are_posted_listed_claimed_and_deleted(http: httpx.Client) -> None:
    messages = [{"body": {"number": number}, "ttl": 300} for number in range(3)]
    posted = http.post("/queues/q/messages", json={"messages": messages})
    assert posted.status_code == 201
    assert len(posted.json()["resources"]) == 3

    listed = http.get("/queues/q/messages", params={"echo": True}).json()["messages"]
    assert [message["body"] for message in listed] == [message["body"] for message in messages]

    claim = http.post("/queues/q/claims", json={"ttl": 300, "grace": 60}, params={"limit": 2})
    assert claim.status_code == 201
    held = claim.json()["messages"]
    assert [message["body"]["number"] for message in held] == [0, 1]
    assert http.get(claim.headers["Location"].removeprefix("/v2")).status_code == 200

    bare = held[0]["href"].removeprefix("/v2").partition("?")[0]
    assert http.delete(bare).status_code == 403
    assert http.delete(held[0]["href"].removeprefix("/v2")).status_code == 204
    assert http.delete(claim.headers["Location"].removeprefix("/v2")).status_code == 204

    stats = http.get("/queues/q/stats").json()["messages"]
    assert (stats["total"], stats["claimed"]) == (2, 0)
    popped = http.delete("/queues/q/messages", params={"pop": 5}).json()["messages"]
    assert [message["body"]["number"] for message in popped] == [1, 2]


def test_claim_can_wait_on_a_store_without_hints(http: httpx.Client) -> None:
    assert http.post("/queues/w/claims", json={}, params={"wait": 1}).status_code == 204
    http.post("/queues/w/messages", json={"messages": [{"body": 1}]})
    assert http.post("/queues/w/claims", json={}, params={"wait": 5}).status_code == 201


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--storage", "nothing://"], 'no storage driver is installed for the scheme "nothing"'),
        (["--storage", "redis://h?nonsense=1"], 'unknown option "nonsense"'),
        (["--workers", "0"], "--workers: 0: it must be a number from 1 to 256"),
        (["--bind", "h:99999"], "--bind h:99999"),
    ],
)
def test_unusable_storage_configuration_fails_at_start(arguments: list[str], why: str) -> None:
    outcome = processes.run([*processes.ZAQAR_REDIS, "serve", *arguments])
    assert outcome.returncode != 0
    assert why in outcome.stderr
