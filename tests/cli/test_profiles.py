# SPDX-License-Identifier: Apache-2.0
"""Profiles: named targets in a file that only its owner may read."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from zaqar_redis.cli import profile_file

PROD = ("--url", "https://queues.example.org/v2", "--storage", "redis://ann:geheim@store/0")


def _file(home: Path) -> Path:
    return home / ".config" / "zaqar-redis" / "profiles.json"


def test_profiles_are_created_listed_used_and_deleted(home: Path, in_process: CommandLine) -> None:
    assert in_process.shown("profile", "list") == []
    assert in_process.done("profile", "create", "prod", *PROD, "--use") == "prod\n"
    in_process.done("profile", "create", "test", "--storage", "unix:///run/redis.sock")
    prod = {
        "name": "prod",
        "in_use": True,
        "service": "https://queues.example.org",
        "store": "redis://ann:***@store/0",
    }
    test = {"name": "test", "in_use": False, "service": "", "store": "unix:///run/redis.sock"}
    assert in_process.shown("profile", "list") == [prod, test]
    in_process.done("profile", "use", "test")
    assert [each["in_use"] for each in in_process.shown("profile", "list")] == [False, True]
    in_process.done("profile", "delete", "test")
    assert in_process.shown("profile", "list") == [prod | {"in_use": False}]
    in_process.done("profile", "use", "prod")
    in_process.done("profile", "use", "--none")
    assert in_process.shown("profile", "list") == [prod | {"in_use": False}]
    in_process.done("profile", "create", "prod", "--url", "http://another")
    assert in_process.shown("profile", "list")[0]["service"] == "http://another"


def test_profile_show_names_targets_and_their_origin(home: Path, in_process: CommandLine) -> None:
    in_process.done("profile", "create", "prod", *PROD, "--use")
    assert in_process.shown("profile", "show") == {
        "in_use": "prod",
        "file": str(_file(home)),
        "commands": "the service https://queues.example.org (profile prod)",
        "store_commands": "the store redis://ann:***@store/0 (profile prod)",
    }
    in_process.done("profile", "create", "prod", "--url", "http://another")
    assert "names only a service" in in_process.shown("profile", "show")["store_commands"]


def test_profile_file_is_readable_by_its_owner_only(home: Path, in_process: CommandLine) -> None:
    in_process.done("profile", "create", "prod", *PROD)
    _file(home).chmod(0o644)
    in_process.done("profile", "use", "prod")
    assert stat.S_IMODE(_file(home).stat().st_mode) == 0o600
    assert stat.S_IMODE(_file(home).parent.stat().st_mode) == 0o700
    assert [path.name for path in _file(home).parent.iterdir()] == [_file(home).name]


def test_invalid_profile_commands_change_nothing(home: Path, in_process: CommandLine) -> None:
    in_process.done("profile", "create", "prod", *PROD, "--use")
    before = _file(home).read_bytes()
    assert "a store or both: --url, --storage" in in_process.refused("profile", "create", "test")
    for words in (("profile", "use", "tset"), ("profile", "delete", "tset")):
        assert 'no profile "tset"' in in_process.refused(*words)
    assert "there are: prod" in in_process.refused("queue", "list", "--profile", "tset")
    for option, bad, why in (
        ("--url", "queues.example.org", "it must be like http"),
        ("--storage", "redsi://h", "no storage driver is installed"),
        ("--storage", "redsi://h", "and embedded"),
        ("--storage", "redis://u:geheim@h?nonsense=1", "nonsense"),
        ("--storage", "embedded://h/d", "it must be embedded://"),
    ):
        usage = in_process.misused("profile", "create", "bad", option, bad)
        assert why in usage
        assert "geheim" not in usage
    assert _file(home).read_bytes() == before


def test_invalid_profile_file_is_reported(home: Path, in_process: CommandLine) -> None:
    in_process.done("profile", "create", "prod", *PROD, "--use")
    for content in ("{", '{"profiles": {"prod": {"urls": "redis://u:geheim@h"}}}', '{"in_use": 1}'):
        _file(home).write_text(content)
        for words in (("queue", "list"), ("profile", "list"), ("profile", "use", "prod")):
            message = in_process.refused(*words)
            assert str(_file(home)) in message
            assert "geheim" not in message
        assert _file(home).read_text() == content
    # A target given by options needs no profile.
    assert "profiles.json" not in in_process.refused("queue", "list", "--url", "http://127.0.0.1:1")


@pytest.mark.usefixtures("home")
def test_concurrently_created_profiles_are_all_stored() -> None:
    def create(name: str) -> None:
        with profile_file.locked_for_update() as profiles:
            profiles.profiles[name] = profile_file.Profile(url=f"http://{name}")

    threads = [threading.Thread(target=create, args=(f"p{number}",)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(profile_file.load().profiles) == len(threads)
