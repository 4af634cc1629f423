# SPDX-License-Identifier: Apache-2.0
"""Stores with TLS and passwords, and what the log contains about them."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import certificates, servers
from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.keyspace.uris import redact_password

PASSWORD = "open-sesame"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of a Redis with TLS only and a password, and its certificate."""
    folder = tmp_path_factory.mktemp("secured")
    key, certificate = certificates.certificate(folder)
    port = servers.free_port()
    options = {
        "port": "0",
        "tls-port": str(port),
        "tls-cert-file": str(certificate),
        "tls-key-file": str(key),
        "tls-ca-cert-file": str(certificate),
        "tls-auth-clients": "no",
        "requirepass": PASSWORD,
        "bind": "127.0.0.1",
        "save": "",
        "dir": str(folder),
        "logfile": str(folder / "redis.log"),
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    process = subprocess.Popen([servers.program(servers.REDIS), *arguments])
    try:
        log = folder / "redis.log"
        servers.wait_for(
            lambda: log.exists() and "Ready to accept" in log.read_text(), "the TLS server"
        )
        yield port, certificate
    finally:
        process.terminate()
        process.wait(60)


async def _ping(uri: str, seconds: float = 2.0) -> bytes:
    """*seconds*: for the connection; one that is refused takes all of them."""
    async with keyspace.connected(uri, BatchSettings(connect_timeout=seconds)) as client:
        answer: bytes = await client.command("PING")
        return answer


async def test_rediss_uri_uses_tls_and_sends_the_password(secured: tuple[int, Path]) -> None:
    port, certificate = secured
    uri = f"rediss://:{PASSWORD}@127.0.0.1:{port}/3?ssl_ca_certs={certificate}"
    assert await _ping(uri, 60.0) == b"PONG"


async def test_certificate_of_an_unknown_authority_is_refused(secured: tuple[int, Path]) -> None:
    port, _ = secured
    with pytest.raises(errors.StoreUnavailable):
        await _ping(f"rediss://:{PASSWORD}@127.0.0.1:{port}")


async def test_wrong_password_is_an_unavailable_store_and_not_logged(
    secured: tuple[int, Path], caplog: pytest.LogCaptureFixture
) -> None:
    port, certificate = secured
    # The commands' own level is higher.
    caplog.set_level(logging.WARNING, "zaqar_redis.keyspace.outages")
    with pytest.raises(errors.StoreUnavailable):
        await _ping(f"rediss://:not-this-one@127.0.0.1:{port}?ssl_ca_certs={certificate}")
    assert "no connection to" in caplog.text
    assert "not-this-one" not in caplog.text


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("redis://localhost/1", "redis://localhost/1"),
        ("redis://:secret@localhost", "redis://:***@localhost"),
        ("rediss://me:secret@[::1]:6380/2", "rediss://me:***@[::1]:6380/2"),
        ("redis://:se@cret@localhost/1", "redis://:***@localhost/1"),
        ("redis://h/0?password=secret&db=1", "redis://h/0?password=***&db=1"),
        ("unix://me:secret@/run/redis.sock?db=1", "unix://me:***@/run/redis.sock?db=1"),
    ],
)
def test_a_uri_is_shown_without_its_password(uri: str, shown: str) -> None:
    assert keyspace.validate_uri(uri) == uri
    assert redact_password(uri) == shown
