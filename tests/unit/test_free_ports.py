# SPDX-License-Identifier: Apache-2.0
"""A port that was asked for stays free until a server takes it."""

from __future__ import annotations

import socket

import pytest

from tests.support import servers
from zaqar_redis.benchmarks.service import BenchmarkFailed


def test_nobody_listens_at_a_free_port() -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", servers.free_port()))


def test_port_is_given_once_and_a_server_can_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    port = servers.free_port()
    monkeypatch.setattr(servers, "_PORTS", [port])
    with pytest.raises(BenchmarkFailed, match="no port is free"):
        servers.free_port()
    with socket.create_server(("127.0.0.1", port)):
        socket.create_connection(("127.0.0.1", port)).close()


def test_ports_are_held_only_until_many_others_have_been_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = servers.free_port()
    for _ in range(servers._PORTS_HELD):
        servers.free_port()
    monkeypatch.setattr(servers, "_PORTS", [port])
    assert servers.free_port() == port
