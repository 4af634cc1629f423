# SPDX-License-Identifier: Apache-2.0
"""What the bench refuses, and how plainly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import servers
from tests.bench.conftest import Bench
from zaqar_redis import errors
from zaqar_redis.bench.service import local_store, local_url


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.1:8888",
        "http://queues.example.org",
        "http://127.0.0.1.example.org:8888",
        "http://127.0.0.1@192.0.2.1:8888",
        "http://[2001:db8::1]:8888",
        "http://0.0.0.0:8888",
    ],
)
def test_only_loopback_gets_load(url: str, bench: Bench) -> None:
    status, output, told, _ = bench("--url", url)
    assert status != 0
    assert output == ""
    assert "only does so on this machine's loopback addresses" in told


@pytest.mark.parametrize("url", ["https://127.0.0.1", "127.0.0.1:8888", "http://127.0.0.1:x", ""])
def test_a_url_must_be_one(url: str) -> None:
    with pytest.raises(errors.BadConfiguration):
        local_url(url)


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ("http://127.0.0.1:8888/", "http://127.0.0.1:8888"),
        ("http://127.0.0.1:8888/v2/", "http://127.0.0.1:8888"),
        ("http://localhost", "http://localhost:80"),
        ("http://[::1]:9", "http://[::1]:9"),
    ],
)
def test_loopback_urls_are_understood(given: str, understood: str) -> None:
    assert local_url(given) == understood


@pytest.mark.parametrize("uri", ["redis://192.0.2.1/0", "rediss://localhost", "memory://"])
def test_a_store_must_be_a_local_redis(uri: str) -> None:
    with pytest.raises(errors.BadConfiguration):
        local_store(uri)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rounds", "0"],
        ["--rounds", "101"],
        ["--seconds", "61"],
        ["--seconds", "x"],
        ["--connections", "1"],
        ["--preload", "10000001"],
        ["--claimed", "19"],
        ["--workload", "nonsense"],
        ["--against-store", "redis://localhost"],
    ],
)
def test_arguments_out_of_bounds_are_refused(arguments: list[str], bench: Bench) -> None:
    status, output, told, _ = bench("--url", "http://127.0.0.1:1", *arguments)
    assert status != 0
    assert output == ""
    assert arguments[0].lstrip("-") in told or arguments[1] in told


def test_a_service_that_is_not_there_is_told(bench: Bench) -> None:
    status, _, told, _ = bench("--url", f"http://127.0.0.1:{servers.free_port()}")
    assert status != 0
    assert "does not answer" in told


def test_something_else_than_zaqar_is_told(bench: Bench, tmp_path: Path) -> None:
    from http.server import HTTPServer, SimpleHTTPRequestHandler
    from threading import Thread

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Quiet) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        status, _, told, _ = bench("--url", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert status != 0
    assert "does not speak Zaqar v2" in told


def test_without_wrk_it_says_how_to_get_it(bench: Bench, tmp_path: Path) -> None:
    assert shutil.which("wrk")
    status, _, told, _ = bench("--url", "http://127.0.0.1:1", path=str(tmp_path))
    assert status != 0
    assert "apt-get install wrk" in told
