# SPDX-License-Identifier: Apache-2.0
"""A configuration that is wrong is told: by ``config check``, and by whatever reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Here
from tests.house.test_sample_config import SAMPLE

WRONG = """
admin_mode = true
[drivers:transport:wsgi]
bind = 0.0.0.0
[sever]
workers = 2
[server]
worker = 2
graceful_timeout = soon
[transport]
uri = redis://u:geheim@h
[channels]
ping_interval = 1
project =
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    file = tmp_path / "wrong.conf"
    file.write_text(f"[DEFAULT]{WRONG}")
    return file


def test_every_problem_of_a_configuration_is_told(here: Here, wrong: Path) -> None:
    assert here.refused("config", "check", "--config-file", str(wrong)).splitlines() == [
        f"[sever] in {wrong}: there is no such group; did you mean [server]?",
        f'[server] worker: there is no such option ({wrong}); did you mean "workers"?',
        f"[transport] uri: there is no such option ({wrong}); there is one in [storage]",
        "[server] graceful_timeout: invalid literal for int() with base 10: 'soon' " + f"({wrong})",
        "[channels] project: it may not be empty",
        "[channels] pong_timeout: it must be less than ping_interval (1)",
        "admin_mode: 0.0.0.0 is not an address of this machine alone, and everybody who reaches "
        "the service could change its pools; bind to 127.0.0.1 or set admin_mode_on_any_address",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("serve",),
        ("queue", "list", "--storage", "redis://127.0.0.1:1"),
        ("check", "--storage", "redis://127.0.0.1:1"),
        ("pipeline", "audit", "--queue", "q", "lake"),
        ("config", "show"),
    ],
    ids=lambda words: words[0],
)
def test_whatever_reads_a_configuration_tells_its_unknown_names(
    home: Path, here: Here, wrong: Path, words: tuple[str, ...]
) -> None:
    told = here.refused(*words, "--config-file", str(wrong))
    assert f"[sever] in {wrong}: there is no such group" in told
    assert f"[server] worker: there is no such option ({wrong})" in told
    assert "geheim" not in told
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[default]\nadmin_mode = true", "[default] in {}: there is no such group"),
        ("[storage]\nurl = redis://h", "[storage] url: there is no such option ({}); did you mean"),
        ("[server]\nzzz = 1", "[server] zzz: there is no such option ({})\n"),
        ("[storage]\nuri = redsi://h", "no storage driver is installed"),
        ("[storage]\nuri = embedded://h/d", "it must be embedded://"),
        ("[storage]\nuri = redis://[h", "[storage] uri: "),
        ("[storage]\nuri = memory://\n[server]\nworkers = 2", "memory:// works with one worker"),
        ("[channels]\ntoken_rsa_public_key = x", "[channels] token_rsa_public_key"),
        ("[channels]\nuris = redis://u:geheim@h?nonsense=1", "[channels] uris"),
        ("no = group", "{}"),
    ],
)
def test_one_problem_of_a_configuration_is_told(
    here: Here, tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "zaqar_redis.conf"
    file.write_text(text)
    said = here.refused("config", "check", "--config-file", str(file))
    assert told.format(file) in said
    assert "geheim" not in said


@pytest.mark.parametrize(
    "text", [SAMPLE.read_text(), "[Server]\nworkers = 2\n[channels:Queue]\npresence = true"]
)
def test_a_configuration_without_problems_is_fine(here: Here, tmp_path: Path, text: str) -> None:
    file = tmp_path / "zaqar_redis.conf"
    file.write_text(text)
    assert here.done("config", "check", "--config-file", str(file)) == (
        f"{file}: nothing is wrong\n",
        "",
    )


def test_no_configuration_is_a_file_less(home: Path, here: Here) -> None:
    assert here.done("config", "check")[0] == "no configuration file: nothing is wrong\n"
    assert "nowhere.conf" in here.refused("config", "check", "--config-file", "nowhere.conf")


def test_values_are_shown_with_their_origin_and_without_secrets(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one.conf", tmp_path / "two.conf"
    one.write_text(
        "[server]\nworkers = 2\n[storage]\nuri = redis://u:geheim@h\n[channels]\napi_key = geheim\n"
        "uris = redis://:geheim@a, redis://:geheim@b\nnamespaces = chat\n"
        "[channels:chat]\npresence = true"
    )
    two.write_text("[server]\nworkers = 3")
    monkeypatch.setenv("OS_SERVER__LOG_LEVEL", "debug")
    files = ("--config-file", str(one), "--config-file", str(two))
    rows = here.shown("config", "show", *files)
    shown = {(row["group"], row["option"]): (row["value"], row["from"]) for row in rows}
    assert shown["server", "workers"] == ("3", str(two))
    assert shown["server", "log_level"] == ("debug", "OS_SERVER__LOG_LEVEL")
    assert shown["DEFAULT", "admin_mode"] == ("False", "default")
    assert shown["storage", "uri"] == ("redis://u:***@h", str(one))
    assert shown["channels", "uris"] == ("redis://:***@a, redis://:***@b", str(one))
    assert shown["channels", "api_key"] == ("***", str(one))
    assert shown["channels", "token_hmac_secret_key"] == ("", "default")
    assert shown["channels:chat", "presence"] == ("True", str(one))
    assert "geheim" not in str(rows)
