# SPDX-License-Identifier: Apache-2.0
"""Invalid arguments of the benchmark, and their error texts."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.command_line import CommandLine, run_module
from zaqar_redis import errors
from zaqar_redis.benchmarks.service import local_store, local_url


def _refusal(*arguments: str) -> str:
    """Returns the error text of a run that does not begin."""
    done = CommandLine().run("bench", *arguments)
    assert done.returncode != 0
    assert done.stdout == ""
    return done.stderr


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
def test_url_beyond_loopback_is_refused(url: str) -> None:
    assert "it must be on a loopback address" in _refusal("--url", url)


@pytest.mark.parametrize("url", ["https://127.0.0.1", "127.0.0.1:8888", "http://127.0.0.1:x", ""])
def test_invalid_url_is_refused(url: str) -> None:
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
def test_loopback_url_is_normalized(given: str, understood: str) -> None:
    assert local_url(given) == understood


@pytest.mark.parametrize("uri", ["redis://192.0.2.1/0", "rediss://localhost", "memory://"])
def test_store_other_than_local_redis_is_refused(uri: str) -> None:
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
def test_out_of_range_argument_is_refused(arguments: list[str]) -> None:
    stderr = _refusal("--url", "http://127.0.0.1:1", *arguments)
    assert arguments[0].lstrip("-") in stderr or arguments[1] in stderr


def test_unreachable_service_is_reported() -> None:
    assert "does not answer" in _refusal("--url", f"http://127.0.0.1:{servers.free_port()}")


def test_server_other_than_zaqar_is_reported() -> None:
    from http.server import HTTPServer, SimpleHTTPRequestHandler
    from threading import Thread

    class NonZaqarHandler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), NonZaqarHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        stderr = _refusal("--url", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert "is not a Zaqar v2 service" in stderr


def test_missing_wrk_is_reported_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert shutil.which("wrk")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install wrk" in _refusal("--url", "http://127.0.0.1:1")


_BENCH = functools.partial(CommandLine().run, "bench", "--url", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    "run",
    [
        _BENCH,
        functools.partial(run_module, "benchmarks.bus"),
        functools.partial(run_module, "benchmarks.chaos"),
    ],
)
def test_file_that_cannot_be_written_is_refused_before_the_run(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = run("--json", str(tmp_path / "none" / "results.json"))
    assert done.returncode == 1
    assert done.stderr.endswith(f"there is no folder {tmp_path / 'none'}\n")
    done = run("--json", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.endswith("that is a folder; name a file\n")
