# SPDX-License-Identifier: Apache-2.0
"""TLS in the service: its files, their reload, and commands that use it."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import servers
from tests.support.backends import Backend
from tests.support.certificates import certificate
from tests.support.command_line import CommandLine

_HEADERS = {"Client-ID": "5b0c7a52-43f6-4a0f-9d0e-0c51f5c3a8a1", "X-Project-ID": "tls"}
#: The certificates that the service may have, and a file with both.
_FIRST, _SECOND, _BOTH = "first", "second", "both.crt"


class TlsService:
    """A service with TLS, whose files may be replaced."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.port, self.metrics_port = servers.free_port(), servers.free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self._log = folder / "service.log"
        config = servers.config_file(
            folder,
            f"[ssl]\ncert_file = {folder / 'service.crt'}\nkey_file = {folder / 'service.key'}\n"
            f"[metrics]\nport = {self.metrics_port}\n",
        )
        command = [sys.executable, "-m", "zaqar_redis.cli.main", "serve"]
        command += ["--bind", f"127.0.0.1:{self.port}", "--storage", store]
        self.process = servers.start_logged([*command, "--config-file", config], self._log)

    def log(self) -> str:
        return self._log.read_text()

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.folder / _BOTH)

    def certificate(self) -> str:
        """Returns which certificate a new connection gets."""
        with (
            socket.create_connection(("127.0.0.1", self.port), 60) as plain,
            self.context().wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            found = connection.getpeercert(binary_form=True)
        assert found is not None
        pem = ssl.DER_cert_to_PEM_cert(found)
        names = {(self.folder / f"{name}.crt").read_text(): name for name in (_FIRST, _SECOND)}
        return names[pem]

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.certificate())
        return False

    def reload(self) -> None:
        """Returns when the service has done it, or refused to."""
        before = self._reloads()
        self.process.send_signal(signal.SIGHUP)
        servers.wait_for(lambda: self._reloads() > before, "the reload")

    def _reloads(self) -> int:
        log = self.log()
        return log.count("new workers serve") + log.count("not reloaded")


def _install(folder: Path, name: str) -> None:
    for kind in ("key", "crt"):
        shutil.copy(folder / f"{name}.{kind}", folder / f"service.{kind}")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsService]:
    folder = tmp_path_factory.mktemp("tls")
    files = [certificate(folder, name)[1] for name in (_FIRST, _SECOND)]
    (folder / _BOTH).write_text("".join(file.read_text() for file in files))
    _install(folder, _FIRST)
    with servers.redis_server() as redis:
        running = TlsService(folder, redis.uri)
        try:
            servers.wait_for(running.answers, "the service to answer")
            yield running
        finally:
            running.process.terminate()
            running.process.wait(60)


def test_requests_of_both_paths_are_served_over_tls(service: TlsService) -> None:
    with httpx.Client(
        base_url=service.url, headers=_HEADERS, verify=service.context(), timeout=60
    ) as client:
        document = {"messages": [{"body": "x" * 100_000}]}
        assert client.post("/v2/queues/q/messages", json=document).status_code == 201
        [message] = client.get("/v2/queues/q/messages?echo=true").json()["messages"]
        assert message["body"] == "x" * 100_000
        assert client.get("/v2/").status_code == 200


@pytest.mark.parametrize("content", [None, b"x" * 4 * 1024 * 1024])
def test_plain_request_is_told_to_use_https(service: TlsService, content: bytes | None) -> None:
    url = service.url.replace("https:", "http:")
    answer = httpx.post(f"{url}/v2/queues", content=content, headers=_HEADERS, timeout=60)
    assert (answer.status_code, answer.headers["connection"]) == (400, "close")
    assert "https://" in answer.json()["description"]
    assert service.certificate()
    refused = CommandLine(["--url", url]).refused("queue", "list")
    assert refused == "This port takes TLS only: use https://, or wss://.\n"


def test_command_that_speaks_tls_to_a_plain_port_is_told_to_use_http(redis_server: Backend) -> None:
    with servers.service(redis_server.uri) as plain:
        shell = CommandLine(["--url", plain.url.replace("http:", "https:")])
        assert shell.refused("queue", "list").endswith("it may not speak TLS: use http://\n")
        line = "is not valid HTTP/1.1: it is TLS, and this port takes http:// only"
        servers.wait_for(lambda: line in plain.log.read_text(), "the line of the log")


def test_metrics_are_plain_http_beside_tls(service: TlsService) -> None:
    with httpx.Client(timeout=60) as client:
        found = client.get(f"http://127.0.0.1:{service.metrics_port}/metrics")
        assert "zaqar_redis_" in found.text
        assert client.get(f"http://127.0.0.1:{service.port}/v2/").status_code == 400


def test_reload_exchanges_the_certificate_and_keeps_connections(service: TlsService) -> None:
    assert service.certificate() == _FIRST
    with httpx.Client(base_url=service.url, verify=service.context(), timeout=60) as client:

        def is_last() -> bool:
            answer = client.get("/healthcheck/live")
            assert answer.status_code == 200
            return str(answer.headers.get("connection")) == "close"

        assert not is_last()
        _install(service.folder, _SECOND)
        service.reload()
        # First: the worker that there was waits some seconds for one more request.
        servers.wait_for(is_last, "the connection that there was to be closed")
        servers.wait_for(lambda: service.certificate() == _SECOND, "the other certificate")
        assert not is_last()


def test_reload_loses_no_new_connection(service: TlsService) -> None:
    """Each request has a connection of its own, whose handshake a worker may retire in."""
    stopping = threading.Event()
    wrong: list[str] = []
    statuses: list[int] = []
    context = service.context()

    def connect() -> None:
        while not stopping.is_set():
            try:
                with httpx.Client(base_url=service.url, verify=context, timeout=60) as client:
                    statuses.append(client.get("/v2/ping").status_code)
            except httpx.HTTPError as error:
                wrong.append(repr(error))

    def wait_for_more() -> None:
        count = len(statuses) + 50
        servers.wait_for(lambda: len(statuses) >= count or bool(wrong), "the load to go on")

    clients = [threading.Thread(target=connect) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        wait_for_more()
        ended = service.log().count("Worker exiting")
        service.reload()
        servers.wait_for(lambda: service.log().count("Worker exiting") > ended, "the old worker")
        wait_for_more()
    finally:
        stopping.set()
        for client in clients:
            client.join()
    assert wrong == []
    assert set(statuses) == {204}


def test_reload_with_files_that_do_not_fit_is_refused(service: TlsService) -> None:
    before = service.certificate()
    other = {_FIRST: _SECOND, _SECOND: _FIRST}[before]
    shutil.copy(service.folder / f"{other}.key", service.folder / "service.key")
    service.reload()
    servers.wait_for(lambda: "KEY_VALUES_MISMATCH" in service.log(), "the refusal in the log")
    assert "not reloaded, the configuration before goes on to apply: [ssl] cert_file" in (
        service.log()
    )
    assert service.certificate() == before


def test_commands_check_the_certificate_of_a_service(service: TlsService) -> None:
    to_service = CommandLine(["--url", service.url])
    trusting = CommandLine([*to_service.target_options, "--ca-file", str(service.folder / _BOTH)])
    assert trusting.done("queue", "create", "by-tls") == "by-tls\n"
    assert "CERTIFICATE_VERIFY_FAILED" in to_service.refused("queue", "list")
    nowhere = CommandLine([*to_service.target_options, "--ca-file", "nowhere.crt"])
    assert "--ca-file nowhere.crt: No such file" in nowhere.refused("queue", "list")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cert_file = {f}/none.crt", "[ssl] cert_file: {f}/none.crt: No such file"),
        ("key_file = {f}/first.key", "[ssl] key_file: it has no effect without cert_file"),
        ("cert_file = {f}/first.key", "[ssl] cert_file: {f}/first.key: it cannot be used"),
        ("cert_file = {f}/first.crt\nkey_file = {f}/other.key", "KEY_VALUES_MISMATCH"),
        ("cert_file = {f}/first.crt\nkey_file = {f}/locked.key", "[ssl] cert_file: {f}/first.crt"),
        (
            "cert_file = {f}/first.crt\nkey_file = {f}/first.key\nca_file = {f}/first.key",
            "[ssl] ca_file: {f}/first.key: it cannot be used",
        ),
    ],
)
def test_files_that_cannot_be_used_are_an_error_at_the_start(
    tmp_path: Path, text: str, message: str
) -> None:
    for name in ("first", "other"):
        certificate(tmp_path, name)
    certificate(tmp_path, "locked", passphrase=b"geheim")
    file = servers.config_file(tmp_path, f"[ssl]\n{text.format(f=tmp_path)}\n")
    refusal = CommandLine().refused("config", "check", "--config-file", file)
    assert message.format(f=tmp_path) in refusal
