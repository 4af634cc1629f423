# SPDX-License-Identifier: Apache-2.0
"""A forked command is what a started one would be, for those who wait for it and for itself."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.support import fork_server, processes, servers
from tests.support.fork_server import ForkedCommand

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leaves that of the other tests alone."""
    monkeypatch.setattr(fork_server, "_server", None)
    yield
    fork_server.close()


def _start(
    folder: Path, *words: str, environment: Mapping[str, str] | None = None
) -> ForkedCommand:
    process = servers.start_command(words, folder / "log", environment)
    assert isinstance(process, ForkedCommand)
    return process


def _forks() -> bool:
    return fork_server._server is not None


def test_output_and_exit_status_are_those_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    right, wrong = _start(tmp_path, "--version"), _start(tmp_path, "serve", "--no-such-option")
    assert (right.wait(60), wrong.wait(60)) == (0, 2)
    assert _forks()
    log = (tmp_path / "log").read_text()
    assert log.startswith("before\n")
    assert "unrecognized arguments: --no-such-option" in log
    assert "usage: main serve" in log  # the program's name, as with -m


def test_forked_service_is_a_child_in_a_session_of_its_own() -> None:
    with servers.service("memory://") as service:
        process = psutil.Process(service.process.pid)
        assert _forks()
        assert process.ppid() == os.getpid()
        assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
        assert process.cwd() == str(Path.cwd())
        assert len(service.workers()) == 1
        files = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)]
        assert files == ["/dev/null", str(service.log), str(service.log)]
    assert service.process.returncode == 0


def test_killed_service_has_ended_by_the_signal_and_leaves_no_child() -> None:
    with servers.service("memory://") as service:
        worker = psutil.Process(service.workers()[0])
        service.process.send_signal(signal.SIGKILL)
        assert service.process.wait(60) == -signal.SIGKILL
        # It ends by itself, and must not wait for this process to ask for its status.
        servers.wait_for(lambda: not worker.is_running(), "the worker to end")


@pytest.mark.parametrize(
    ("variable", "forks"), [("ZAQAR_REDIS_SERVER__LOG_LEVEL", True), ("OTHER", False)]
)
def test_environment_is_the_given_one_also_when_it_decides_imports(
    variable: str, forks: bool
) -> None:
    environment = {variable: "warning"}
    with servers.service("memory://", environment=environment) as service:
        assert psutil.Process(service.process.pid).ppid() == os.getpid()
        has_forked = "tests.support.fork_server" in psutil.Process(service.process.pid).cmdline()
        assert has_forked == forks
        started = "Starting gunicorn" in service.log.read_text()
        assert started != forks  # the level of a warning hides it


@pytest.mark.usefixtures("own_server")
def test_lost_server_is_replaced_and_what_it_has_forked_goes_on(tmp_path: Path) -> None:
    with servers.service("memory://") as service:
        assert fork_server._server is not None
        fork_server._server.process.kill()
        fork_server._server.process.wait()
        assert _start(tmp_path, "--version").wait(60) == 0
        assert not _forks()
        assert _start(tmp_path, "--version").wait(60) == 0
        assert _forks()
        assert service.answers()


@pytest.mark.usefixtures("own_server")
def test_start_waits_for_a_server_that_is_slow_and_no_second_one_follows(tmp_path: Path) -> None:
    assert _start(tmp_path, "--version").wait(60) == 0
    server = fork_server._server
    assert server is not None
    server._connection.settimeout(0.1)
    server.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        started = pool.submit(_start, tmp_path, "--version")
        try:
            with pytest.raises(TimeoutError):
                started.result(0.5)
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert started.result(60).wait(60) == 0
    assert fork_server._server is server


def test_server_ends_with_the_process_of_the_tests(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from tests.support import fork_server, servers\n"
        "servers.start_command(['--version'], Path(sys.argv[1])).wait()\n"
        "print(fork_server._server.process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = processes.run([sys.executable, "-c", program, tmp_path / "log"])
    assert done.returncode == -signal.SIGKILL
    servers.wait_for(lambda: not psutil.pid_exists(int(done.stdout)), "the server to end")
