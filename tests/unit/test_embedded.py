# SPDX-License-Identifier: Apache-2.0
"""One embedded server for a data directory, as long as a process uses it."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support import servers
from zaqar_redis import errors
from zaqar_redis.keyspace import embedded

_USER = """
import sys
from zaqar_redis.keyspace import embedded
with embedded.running(sys.argv[1]) as uri:
    print(uri, flush=True)
    sys.stdin.read()
"""


class ServerUserProcess:
    """Another process that uses the embedded server of a URI."""

    def __init__(self, uri: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _USER, uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    @property
    def uri(self) -> str:
        """The server's URI, once it runs."""
        assert self._process.stdout
        return self._process.stdout.readline().decode().strip()

    def leave(self) -> None:
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=60)


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not tmp_path: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="zr-") as made:
        yield Path(made)


@contextlib.contextmanager
def _users(folder: Path, number: int) -> Iterator[list[ServerUserProcess]]:
    users = [ServerUserProcess(f"embedded://{folder}") for _ in range(number)]
    try:
        yield users
    finally:
        for user in users:
            user.kill()


def _client(uri: str) -> redis.Redis:
    at_once = Retry(NoBackoff(), 0)
    return redis.Redis(unix_socket_path=uri.removeprefix("unix://"), retry=at_once)


def _pid(uri: str) -> int:
    with _client(uri) as client:
        return int(client.info("server")["process_id"])


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter, if it ends between open and read
        return False
    return state != "Z"  # a zombie has ended, even when it was not waited for


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    servers.wait_for(lambda: not _is_alive(pid), "the server to end")


def _answers(uri: str) -> bool:
    with _client(uri) as client:
        try:
            return bool(client.ping())
        except (redis.RedisError, OSError):
            return False


def _rejected(client: redis.Redis) -> int:
    return int(client.info("stats")["rejected_connections"])


def test_embedded_server_runs_only_while_used(folder: Path) -> None:
    with embedded.running(f"embedded://{folder}") as uri:
        pid = _pid(uri)
        assert uri == f"unix://{folder}/redis.sock"
    assert not _is_alive(pid)
    assert not (folder / "redis.sock").exists()


def test_embedded_server_keeps_data_over_restart(folder: Path) -> None:
    for number in range(3):
        with (
            embedded.running(f"embedded://{folder}?appendfsync=always") as uri,
            _client(uri) as client,
        ):
            assert client.incr("runs") == number + 1
            assert client.config_get("appendfsync") == {"appendfsync": "always"}


def test_embedded_server_is_private_to_its_user(folder: Path) -> None:
    inner = folder / "made" / "here"
    with embedded.running(f"embedded://{inner}") as uri, _client(uri) as client:
        assert client.config_get("port") == {"port": "0"}
        assert stat.S_IMODE(inner.stat().st_mode) == 0o700
        assert stat.S_IMODE((inner / "redis.sock").stat().st_mode) == 0o700


def test_concurrent_users_share_one_server_and_the_last_stops_it(folder: Path) -> None:
    with _users(folder, 3) as users:
        pids = {_pid(user.uri) for user in users}
        assert len(pids) == 1
        [pid] = pids
        for user in users[:2]:
            user.leave()
            assert _is_alive(pid)
        users[2].leave()
        assert not _is_alive(pid)


def test_killed_user_does_not_stop_the_server_of_others(folder: Path) -> None:
    with _users(folder, 1) as users:
        uri = users[0].uri
        pid = _pid(uri)
        with embedded.running(f"embedded://{folder}"):
            users[0].kill()
            assert _pid(uri) == pid
        # A killed process holds no lock: this one was the last user.
        assert not _is_alive(pid)


def test_server_whose_only_user_was_killed_is_used_by_the_next(folder: Path) -> None:
    with _users(folder, 1) as users:
        uri = users[0].uri
        pid = _pid(uri)
        users[0].kill()
        assert _is_alive(pid)
        with embedded.running(f"embedded://{folder}") as again:
            assert (again, _pid(again)) == (uri, pid)
        assert not _is_alive(pid)


def test_server_killed_with_its_user_is_started_by_the_next_user(folder: Path) -> None:
    with _users(folder, 1) as users:
        uri = users[0].uri
        with _client(uri) as client:
            client.set("kept", "yes")
        pid = _pid(uri)
        users[0].kill()
        _kill(pid)
    with embedded.running(f"embedded://{folder}") as again, _client(again) as client:
        assert client.get("kept") == b"yes"


def test_server_killed_while_used_is_restarted_with_data_and_options(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with embedded.running(f"embedded://{folder}?appendfsync=always") as uri:
        for number in range(3):
            with _client(uri) as client:
                assert client.incr("lives") == number + 1
            pid = _pid(uri)
            _kill(pid)
            servers.wait_for(lambda: _answers(uri), "the server to come back")
            with _client(uri) as client:
                assert client.config_get("appendfsync") == {"appendfsync": "always"}
        last = _pid(uri)
    assert not _is_alive(last)
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == 3
    assert f"{folder} ended; it was started again as process {last}" in logged[-1]


def test_only_one_of_several_users_restarts_the_server(folder: Path) -> None:
    with _users(folder, 3) as users:
        [uri] = {user.uri for user in users}
        with _client(uri) as client:
            client.set("kept", "yes")
        old = _pid(uri)
        _kill(old)
        servers.wait_for(lambda: _answers(uri), "the server to come back")
        new = _pid(uri)
        for user in users[:2]:
            user.leave()
            assert _pid(uri) == new
        with _client(uri) as client:
            assert client.get("kept") == b"yes"
        users[2].leave()
        assert not _is_alive(new)


def test_restart_is_retried_until_it_succeeds(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    appended, aside, mended = folder / "appendonlydir", folder / "aside", folder / "mended"

    def refused() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]

    with embedded.running(f"embedded://{folder}") as uri:
        with _client(uri) as client:
            client.set("kept", "yes")
        pid = _pid(uri)
        appended.rename(aside)
        appended.write_text("not a folder")
        _kill(pid)
        servers.wait_for(lambda: len(refused()) > 1, "two attempts")
        mended.symlink_to(aside)
        mended.replace(appended)  # at once: an attempt in between would begin without data
        servers.wait_for(lambda: _answers(uri), "the server to come back")
        with _client(uri) as client:
            assert client.get("kept") == b"yes"
    first, second = refused()[:2]
    assert f"{folder} ended and cannot be started again: " in first
    assert "did not start: " in first
    assert "append" in first
    # Each attempt waits longer than the one before.
    assert "next attempt in 0.1 s" in first
    assert "next attempt in 0.2 s" in second


def test_user_exits_at_once_while_server_cannot_be_restarted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for pause in ("_RESTART_DELAY_SECONDS", "_START_RETRY_MAX_SECONDS"):
        monkeypatch.setattr(embedded, pause, 3000.0)  # longer than a test may take
    with embedded.running(f"embedded://{folder}") as uri:
        pid = _pid(uri)
        (folder / "appendonlydir").rename(folder / "aside")
        (folder / "appendonlydir").write_text("not a folder")
        _kill(pid)
        servers.wait_for(lambda: "next attempt in 3000.0 s" in caplog.text, "an attempt")
    assert not _answers(uri)


def test_server_at_its_connection_limit_is_not_started_twice(folder: Path) -> None:
    with embedded.running(f"embedded://{folder}") as uri, _client(uri) as client:
        pid = _pid(uri)
        client.config_set("maxclients", 1)
        user = ServerUserProcess(f"embedded://{folder}")
        try:
            # By then the other user has tried to connect, and was rejected.
            servers.wait_for(lambda: _rejected(client) > 0, "the other user to connect")
            client.config_set("maxclients", 100)
            assert user.uri == uri
            assert _pid(uri) == pid
            user.leave()
        finally:
            user.kill()


def test_socket_of_a_long_path_is_in_another_folder(folder: Path) -> None:
    deep = folder / ("d" * 80) / ("e" * 80)
    with embedded.running(f"embedded://{deep}") as uri, _client(uri) as client:
        assert len(uri) < 110
        client.set("a", "b")
        assert (deep / "appendonlydir").exists() or (deep / "appendonly.aof").exists()
        other = embedded.DataDirectory(f"embedded://{deep}x").uri
        assert other != uri
    parent = Path(uri.removeprefix("unix://")).parent
    assert list(parent.iterdir()) == []
    parent.rmdir()


def test_path_may_have_percent_encoded_characters(folder: Path) -> None:
    with embedded.running(f"embedded://{folder}/with%20blank%C3%A9") as uri:
        assert _pid(uri)
        assert (folder / "with blanké" / "redis.sock").exists()


def test_uri_without_path_means_the_users_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/var/lib/somebody")
    directory = embedded.DataDirectory("embedded://")
    assert directory.folder == Path("/var/lib/somebody/zaqar-redis")


@pytest.mark.parametrize(
    "uri",
    [
        *("embedded://folder", "embedded://host/folder"),
        *("embedded:///folder?appendfsync=never", "embedded:///folder?appendfsync"),
        *("embedded:///folder?appendfsync=", "embedded:///folder?fsync=always"),
        *("embedded:///folder?a=1&b=2", "redis:///folder", ""),
    ],
)
def test_invalid_uri_is_refused(uri: str) -> None:
    with pytest.raises(errors.BadConfiguration, match="storage URI"):
        embedded.DataDirectory(uri)


@pytest.mark.parametrize(
    ("file", "path", "why"),
    [("file", "/file/data", "data directory"), ("appendonlydir", "", "did not start: .*append")],
)
def test_file_in_the_place_of_a_folder_is_reported_as_the_reason(
    folder: Path, file: str, path: str, why: str
) -> None:
    (folder / file).write_text("no folder")
    with (
        pytest.raises(errors.BadConfiguration, match=why),
        embedded.running(f"embedded://{folder}{path}"),
    ):
        pass


def test_symbolic_link_as_folder_of_the_socket_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common, target = tmp_path / "common", tmp_path / "target"
    common.mkdir()
    target.mkdir()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(common))
    uri = f"embedded://{tmp_path / ('d' * 100)}"
    folder = embedded.DataDirectory(uri).socket.parent
    assert folder.parent == common
    folder.symlink_to(target)
    with (
        pytest.raises(errors.BadConfiguration, match="is not a directory of this user"),
        embedded.running(uri),
    ):
        pass
