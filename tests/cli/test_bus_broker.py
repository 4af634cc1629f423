# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis bus-broker``: its options, and how it begins and ends."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.brokers import zeromq_broker
from tests.support.command_line import CommandLine
from zaqar_redis.realtime.buses.zeromq_keys import check_curve_key, new_keys, public_key


def test_help_names_every_option(in_process: CommandLine) -> None:
    shown = in_process.done("help", "bus-broker")
    for option in (
        *("--bind", "--port", "--high-water-mark", "--insecure"),
        *("--curve-secret-key-file", "--curve-clients", "--new-keys"),
    ):
        assert option in shown


def test_new_keys_are_a_pair_that_brokers_and_nodes_take(in_process: CommandLine) -> None:
    first, second = (in_process.done("bus-broker", "--new-keys") for _ in range(2))
    assert all("$" not in "".join(new_keys()) for _ in range(50))  # oslo.config would replace it
    assert first != second
    lines = dict(line.split(": ") for line in first.splitlines())
    for name in ("public key", "secret key"):
        check_curve_key(name, lines[name])
    assert public_key(lines["secret key"]) == lines["public key"]


@pytest.mark.parametrize(
    "words",
    [("--port", "65535"), ("--port", "0"), ("--high-water-mark", "0"), ("--bind", "localhost")],
)
def test_option_out_of_range_is_refused(in_process: CommandLine, words: tuple[str, str]) -> None:
    assert words[0] in in_process.misused("bus-broker", *words)


def test_address_of_others_is_refused_without_keys(in_process: CommandLine) -> None:
    refused = in_process.refused("bus-broker", "--bind", "0.0.0.0")
    assert "0.0.0.0 is not an address of this machine alone" in refused
    assert "--curve-secret-key-file" in refused
    assert "--insecure" in refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it must have one key, and has 0"),
        ("{secret}\n{secret}\n", "it must have one key, and has 2"),
        ("{secret}x", "this is no CURVE key"),
        ("~" * 40, "this is no CURVE key"),
        ("é", "ascii"),
    ],
)
def test_file_with_a_bad_key_is_named_and_its_key_is_not_shown(
    in_process: CommandLine, tmp_path: Path, content: str, message: str
) -> None:
    _, secret = new_keys()
    file = tmp_path / "secret.key"
    file.write_text(content.replace("{secret}", secret))
    refused = in_process.refused("bus-broker", "--curve-secret-key-file", str(file))
    assert str(file) in refused
    assert message in refused
    assert secret not in refused


def test_missing_key_file_is_named(in_process: CommandLine, tmp_path: Path) -> None:
    words = ("bus-broker", "--curve-secret-key-file", str(tmp_path / "none"))
    assert "No such file" in in_process.refused(*words)


def test_bad_key_of_a_client_is_named_by_its_number(
    in_process: CommandLine, tmp_path: Path
) -> None:
    public, secret = new_keys()
    (tmp_path / "secret.key").write_text(secret)
    (tmp_path / "clients").write_text(f"# nodes\n{public}\n\nwrong\n")
    refused = in_process.refused(
        "bus-broker",
        *("--curve-secret-key-file", str(tmp_path / "secret.key")),
        *("--curve-clients", str(tmp_path / "clients")),
    )
    assert f"{tmp_path / 'clients'}, key 2: this is no CURVE key" in refused


def test_keys_of_clients_without_a_secret_key_are_refused(
    in_process: CommandLine, tmp_path: Path
) -> None:
    refused = in_process.refused("bus-broker", "--curve-clients", str(tmp_path / "clients"))
    assert "without --curve-secret-key-file" in refused


@pytest.mark.parametrize("offset", [0, 1])
def test_port_in_use_is_a_clear_error(in_process: CommandLine, offset: int) -> None:
    port = servers.free_ports(2)
    with socket.create_server(("127.0.0.1", port + offset)):
        refused = in_process.refused("bus-broker", "--port", str(port))
    assert f"cannot listen at tcp://127.0.0.1:{port + offset}: Address already in use" in refused
    assert "--port" in refused


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_broker_says_where_it_listens_and_a_signal_ends_it_with_0(number: int) -> None:
    with zeromq_broker() as broker:
        listens = f"nodes send to tcp://127.0.0.1:{broker.port}, and receive from tcp://"
        assert listens in broker.log
        broker.signal(number)
        assert broker.wait() == 0
        assert broker.log.splitlines()[-1] == "bus broker: stops"


def test_broker_with_keys_and_connected_nodes_ends_too(tmp_path: Path) -> None:
    public, secret = new_keys()
    (tmp_path / "secret.key").write_text(secret)
    (tmp_path / "clients").write_text(public)
    words = (
        *("--curve-secret-key-file", str(tmp_path / "secret.key")),
        *("--curve-clients", str(tmp_path / "clients")),
    )
    with zeromq_broker(*words) as broker, socket.create_connection(("127.0.0.1", broker.port)):
        assert broker.stop() == 0
        assert "Traceback" not in broker.log
