# SPDX-License-Identifier: Apache-2.0
"""Profiles: names for services and stores, in a file that only its owner reads."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from tests.cli.conftest import Here
from zaqar_redis.cli import profile_file

PROD = ("--url", "https://queues.example.org/v2", "--storage", "redis://ann:geheim@store/0")


def _file(home: Path) -> Path:
    return home / ".config" / "zaqar-redis" / "profiles.json"


def test_profiles_are_made_listed_used_and_deleted(home: Path, here: Here) -> None:
    assert here.shown("profile", "list") == []
    assert here.done("profile", "create", "prod", *PROD, "--use") == ("prod\n", "")
    here.done("profile", "create", "test", "--storage", "unix:///run/redis.sock")
    prod = {
        "name": "prod",
        "in_use": True,
        "service": "https://queues.example.org",
        "store": "redis://ann:***@store/0",
    }
    test = {"name": "test", "in_use": False, "service": "", "store": "unix:///run/redis.sock"}
    assert here.shown("profile", "list") == [prod, test]
    here.done("profile", "use", "test")
    assert [each["in_use"] for each in here.shown("profile", "list")] == [False, True]
    here.done("profile", "delete", "test")
    assert here.shown("profile", "list") == [prod | {"in_use": False}]
    here.done("profile", "use", "prod")
    here.done("profile", "use", "--none")
    assert here.shown("profile", "list") == [prod | {"in_use": False}]
    here.done("profile", "create", "prod", "--url", "http://another")
    assert here.shown("profile", "list")[0]["service"] == "http://another"


def test_what_commands_talk_to_is_shown_with_what_says_so(home: Path, here: Here) -> None:
    here.done("profile", "create", "prod", *PROD, "--use")
    assert here.shown("profile", "show") == {
        "in_use": "prod",
        "file": str(_file(home)),
        "commands": "the service https://queues.example.org (profile prod)",
        "store_commands": "the store redis://ann:***@store/0 (profile prod)",
    }
    here.done("profile", "create", "prod", "--url", "http://another")
    assert "names a service only" in here.shown("profile", "show")["store_commands"]


def test_only_its_owner_reads_the_file(home: Path, here: Here) -> None:
    here.done("profile", "create", "prod", *PROD)
    _file(home).chmod(0o644)
    here.done("profile", "use", "prod")
    assert stat.S_IMODE(_file(home).stat().st_mode) == 0o600
    assert stat.S_IMODE(_file(home).parent.stat().st_mode) == 0o700
    assert [path.name for path in _file(home).parent.iterdir()] == [_file(home).name]


def test_what_is_no_profile_is_refused_and_changes_nothing(home: Path, here: Here) -> None:
    here.done("profile", "create", "prod", *PROD, "--use")
    before = _file(home).read_bytes()
    assert "give --url, --storage" in here.refused("profile", "create", "test")
    for words in (("profile", "use", "tset"), ("profile", "delete", "tset")):
        assert 'no profile "tset"' in here.refused(*words)
    assert "there are: prod" in here.refused("queue", "list", "--profile", "tset")
    for option, bad, why in (
        ("--url", "queues.example.org", "it must be like http"),
        ("--storage", "redsi://h", "no storage driver is installed"),
        ("--storage", "redis://u:geheim@h?nonsense=1", "nonsense"),
        ("--storage", "embedded://h/d", "it must be embedded://"),
    ):
        code, _, told = here.run("profile", "create", "bad", option, bad)
        assert code == 2
        assert why in told
        assert "geheim" not in told
    assert _file(home).read_bytes() == before


def test_a_file_that_is_none_is_told(home: Path, here: Here) -> None:
    here.done("profile", "create", "prod", *PROD, "--use")
    for content in ("{", '{"profiles": {"prod": {"urls": "redis://u:geheim@h"}}}', '{"in_use": 1}'):
        _file(home).write_text(content)
        for words in (("queue", "list"), ("profile", "list"), ("profile", "use", "prod")):
            told = here.refused(*words)
            assert str(_file(home)) in told
            assert "geheim" not in told
        assert _file(home).read_text() == content
    # What is said otherwise needs no profile.
    assert "profiles.json" not in here.refused("queue", "list", "--url", "http://127.0.0.1:1")


@pytest.mark.usefixtures("home")
def test_no_profile_is_lost_when_several_are_made_at_once() -> None:
    def make(name: str) -> None:
        with profile_file.changed() as profiles:
            profiles.profiles[name] = profile_file.Profile(url=f"http://{name}")

    makers = [threading.Thread(target=make, args=(f"p{number}",)) for number in range(16)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len(profile_file.load().profiles) == len(makers)
