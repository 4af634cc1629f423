# SPDX-License-Identifier: Apache-2.0
"""Inconsistent options of channels are reported at the start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.api import console
from zaqar_redis.cli import service_factory


def start(folder: Path, text: str) -> None:
    """Starts the service with this configuration, up to the first worker."""
    file = folder / "zaqar_redis.conf"
    file.write_text(text)
    service_factory.channels(configuration.load([], [str(file)]), "redis://127.0.0.1")


def pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> str:
    """Returns the public key in PEM, as a file has it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    text = key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()
    return text.strip().replace("\n", "\n ")


ECDSA, ED25519 = (
    pem(ec.generate_private_key(ec.SECP256R1())),
    pem(ed25519.Ed25519PrivateKey.generate()),
)
FINE = f"""
[channels]
namespaces = chat, queue, alerts
personal_channel_namespace = chat
user_personal_channel = true
token_ecdsa_public_key = {ECDSA}
token_ed25519_public_key = {ED25519}
token_jwks_public_endpoint = https://example.org/keys
allowed_origins = *, https://*.example.org
[channels:chat]
history_size = 1
history_ttl = 60
force_recovery = true
channel_regex = ^[a-z]+$
publication_data_format =
[channels:queue]
presence = true
publication_data_format = json_object
"""


def test_consistent_options_are_accepted(tmp_path: Path) -> None:
    start(tmp_path, FINE)


@pytest.mark.parametrize("document", ["channels.md", "console.md"])
def test_configurations_in_the_documents_are_accepted(tmp_path: Path, document: str) -> None:
    guide = Path(__file__).parents[2] / "doc" / document
    blocks = re.findall(r"^```ini\n(.*?)^```", guide.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        start(tmp_path, block)


@pytest.mark.parametrize(
    ("group", "line", "message"),
    [
        ("channels:caht", "presence = true", "[channels:caht]"),
        ("channels:chat", "presense = true", "[channels:chat] presense"),
        ("channels", "alowed_origins = *", "[channels] alowed_origins"),
        ("channels", "namespaces = a, bb", "[channels] namespaces"),
        ("channels", "namespaces = with blank", "[channels] namespaces"),
        ("channels:chat", "history_size = some", "[channels:chat] history_size"),
        ("channels:chat", "channel_regex = [a-z", "[channels:chat] channel_regex"),
        ("channels", "token_rsa_public_key = none", "[channels] token_rsa_public_key"),
        pytest.param(
            "channels", f"token_rsa_public_key = {ECDSA}", "not of type RSA", id="rsa-of-ecdsa"
        ),
        pytest.param(
            "channels",
            f"token_ecdsa_public_key = {ED25519}",
            "not of type ECDSA",
            id="ecdsa-of-ed25519",
        ),
        pytest.param(
            "channels",
            f"token_ed25519_public_key = {ECDSA}",
            "not of type Ed25519",
            id="ed25519-of-ecdsa",
        ),
        (
            "channels",
            "token_jwks_public_endpoint = example.org/keys",
            "[channels] token_jwks_public_endpoint",
        ),
        ("channels", "personal_channel_namespace = none", "[channels] personal_channel_namespace"),
        ("channels", "force_recovery = true", "[channels] force_recovery"),
        ("channels:alerts", "force_positioning = true", "[channels:alerts] force_positioning"),
        ("channels:alerts", "auto_cache_recover = true", "[channels:alerts] auto_cache_recover"),
        ("channels:alerts", "history_size = 1", "[channels:alerts] history_ttl"),
        ("channels:alerts", "history_ttl = 1", "[channels:alerts] history_size"),
        ("channels", "uris = redis://localhost, redis://127.0.0.1:6379/0", "[channels] uris"),
        ("channels", "allowed_origins = *.example.org", "[channels] allowed_origins"),
        ("channels", "ping_interval = 8", "[channels] pong_timeout"),
        ("channels", "project =", "[channels] project"),
        ("channels", "channel_limit = many", "[channels] channel_limit"),
        ("channels", "publication_data_format = xml", "[channels] publication_data_format"),
        (
            "channels:queue",
            "publication_data_format = binary",
            "[channels:queue] publication_data_format",
        ),
    ],
)
def test_inconsistent_option_is_reported_with_its_group(
    tmp_path: Path, group: str, line: str, message: str
) -> None:
    with pytest.raises(errors.BadConfiguration) as refused:
        start(tmp_path, f"{FINE}[{group}]\n{line}\n")  # the last value is the one that counts
    assert message in str(refused.value)


def test_console_without_charts_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks_charts(text: str) -> bool:
        file = tmp_path / "zaqar_redis.conf"
        file.write_text(text)
        return service_factory.lacks_charts(configuration.load([], [str(file)]))

    assert not lacks_charts("")
    monkeypatch.setattr(console, "_VENDOR", tmp_path)
    assert lacks_charts("")
    assert lacks_charts("[channels]\nenabled = false\n")
    assert not lacks_charts("[console]\nenabled = false\n")
    (tmp_path / "uPlot.iife.min.js").touch()
    assert not lacks_charts("")
