# SPDX-License-Identifier: Apache-2.0
"""Commands that are not told where find the running service, and never make a store."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import servers
from tests.cli.conftest import Here
from zaqar_redis import errors
from zaqar_redis.cli import profile_file, target

NOWHERE = "http://127.0.0.1:1"
_HEADERS = {"Client-ID": "9d3f6c0e-8f0d-4c55-a2f3-6b3a0f4d6a10", "X-Project-ID": "default"}
#: A command of each kind that works at a store.
AT_A_STORE = (
    ("queue", "list"),
    ("message", "post", "q", "x"),
    ("check",),
    ("sweep",),
    ("import-stock", "--from", "redis://127.0.0.1:1"),
    ("pipeline", "audit", "--queue", "q", "lake"),
)


@contextlib.contextmanager
def _service_of(home: Path) -> Iterator[servers.Service]:
    """Started as in the tutorial, but for its port: another one may be on the default one."""
    port = servers.free_port()
    (home / "zaqar_redis.conf").write_text(f"[drivers:transport:wsgi]\nport = {port}\n")
    log = home / "service.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "zaqar_redis.cli.main", "serve"],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with servers.watched(process, port, log) as running:
        yield running


def test_commands_without_options_reach_the_service_that_runs_here(home: Path, here: Here) -> None:
    data = home / ".local" / "share" / "zaqar-redis"
    with _service_of(home) as service:
        _, told = here.done("message", "post", "orders", "one")
        assert told == f"zaqar-redis: at the service {service.url} (the default)\n"
        listed = httpx.get(f"{service.url}/v2/queues", headers=_HEADERS).json()["queues"]
        assert [queue["name"] for queue in listed] == ["orders"]
        _, told = here.done("check")
        assert told.startswith(f"zaqar-redis: at the store embedded://{data} (the default)\n")
        assert "1 messages" in told
        importing = ("import-stock", "--from", "redis://127.0.0.1:1")
        assert "say where to" in here.refused(*importing)  # so much goes nowhere by default
    # The data are still there, but whose they are now nobody has said.
    assert f"no service uses embedded://{data}" in here.refused("check")
    assert here.shown("check", "--storage", "embedded://") == []


def test_a_service_that_does_not_run_is_told_with_what_to_do(home: Path, here: Here) -> None:
    told = here.refused("queue", "list", "--config-file", str(_config(home, "port = 1")))
    assert f"the service {NOWHERE} (the default) does not answer" in told
    for way in ("zaqar-redis serve", "--url", "--storage", target.URL, target.URI, "profile"):
        assert way in told
    assert [path.name for path in home.iterdir()] == ["zaqar_redis.conf"]


@pytest.mark.parametrize("words", AT_A_STORE, ids=lambda words: words[0])
def test_no_command_makes_a_data_directory_by_a_typo(
    home: Path, here: Here, words: tuple[str, ...]
) -> None:
    (home / "there").mkdir()
    for folder in (home / "data", home / "there"):
        told = here.refused(*words, "--storage", f"embedded://{folder}")
        assert f"{folder} is no data directory: only `zaqar-redis serve` makes one" in told
    assert [path.name for path in home.iterdir()] == ["there"]
    assert list((home / "there").iterdir()) == []


def _config(home: Path, listen: str, store: str = "") -> Path:
    file = home / "zaqar_redis.conf"
    file.write_text(f"[drivers:transport:wsgi]\n{listen}\n[storage]\n{store}\n")
    return file


def _given(**options: object) -> argparse.Namespace:
    return argparse.Namespace(**options)


def test_option_then_environment_then_profile_then_configuration_then_the_default(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both(**options: object) -> list[str]:
        given = _given(**options)
        return [str(target.find(given)), str(target.find(given, store_only=True))]

    default = target.find(_given())
    assert str(default) == "the service http://127.0.0.1:8888 (the default)"
    file = _config(home, "bind = ::\nport = 7", "uri = redis://of-file")
    assert both() == [f"the store redis://of-file ({file})"] * 2
    with profile_file.changed() as profiles:
        profiles.profiles["prod"] = profile_file.Profile(url="http://prod", uri="redis://prod")
        profiles.profiles["test"] = profile_file.Profile(uri="redis://test")
        profiles.in_use = "prod"
    prod = ["the service http://prod (profile prod)", "the store redis://prod (profile prod)"]
    assert both() == prod
    monkeypatch.setenv(target.URI, "redis://env")
    assert both() == [f"the store redis://env ({target.URI})"] * 2
    monkeypatch.setenv(target.URL, "http://env/v2")
    by = f"{target.URL}, {target.URI}"
    assert both() == [f"the service http://env ({by})", f"the store redis://env ({by})"]
    assert both(config_file=[str(file)]) == [f"the store redis://of-file ({file})"] * 2
    assert both(profile="test") == ["the store redis://test (profile test)"] * 2
    assert both(storage="redis://typed") == ["the store redis://typed (--storage)"] * 2
    assert str(target.find(_given(url="http://typed"))) == "the service http://typed (--url)"


def test_a_variable_without_a_value_is_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(target.URL, "")
    monkeypatch.setenv(target.URI, "")
    assert target.find(_given()).assumed


def test_what_names_a_service_only_is_no_store(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with profile_file.changed() as profiles:
        profiles.profiles["prod"] = profile_file.Profile(uri="redis://of-another")
        profiles.in_use = "prod"
    monkeypatch.setenv(target.URL, NOWHERE)
    with pytest.raises(errors.BadConfiguration, match=f"{target.URL} names a service only"):
        target.find(_given(), store_only=True)


@pytest.mark.parametrize(
    ("bind", "host"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("queues", "queues")],
)
def test_the_default_is_where_the_configuration_has_the_service(
    home: Path, bind: str, host: str
) -> None:
    _config(home, f"bind = {bind}\nport = 7777")
    assert target.find(_given()).url == f"http://{host}:7777"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        ("http://h:1/v2", "http://h:1"),
        ("http://h:1/v2/", "http://h:1"),
        ("https://u:p@h/zaqar/v2/", "https://u:p@h/zaqar"),
        ("http://h/v2beta", "http://h/v2beta"),
    ],
)
def test_the_address_of_a_service_may_end_in_its_version(given: str, url: str) -> None:
    assert target.service_url(given) == url


@pytest.mark.parametrize("given", ["127.0.0.1:8888", "redis://h", "http://", "http://h:x", "/v2"])
def test_what_is_no_address_of_a_service_is_refused(
    home: Path, here: Here, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    code, _, told = here.run("queue", "list", "--url", given)
    assert code == 2
    assert f"{given}: it must be like http://127.0.0.1:8888" in told
    monkeypatch.setenv(target.URL, given)
    assert f"{target.URL}: {given}: it must be like" in here.refused("queue", "list")


@pytest.mark.parametrize("ending", ["", "/", "/v2", "/v2/"])
def test_queues_and_channels_are_reached_by_an_address_with_a_version(
    here: Here, service: servers.Service, project: str, ending: str
) -> None:
    where = ("--url", f"{service.url}{ending}", "--project", project)
    here.done("queue", "create", "q", *where)
    assert here.shown("queue", "list", *where) == [{"name": "q"}]
    assert "API key" in here.refused("channel", "list", *where)


def test_statistics_count_idempotency_records(
    here: Here, service: servers.Service, project: str
) -> None:
    httpx.post(
        f"{service.url}/v2/queues/q/messages",
        json={"messages": [{"body": 1}]},
        headers={**_HEADERS, "X-Project-ID": project, "Idempotency-Key": "one"},
    ).raise_for_status()
    stats = here.shown("queue", "stats", "q", "--url", service.url, "--project", project)
    assert stats["idempotency_records"] == 1


def test_who_has_not_typed_where_is_told_where(
    home: Path,
    here: Here,
    redis_server: servers.RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("queue", "list")
    assert here.done(*words, "--storage", redis_server.uri)[1] == ""
    told = f"zaqar-redis: at the store {redis_server.uri} "
    assert here.done("-v", *words, "--storage", redis_server.uri)[1].startswith(told)
    monkeypatch.setenv(target.URI, redis_server.uri)
    assert here.done(*words)[1] == f"{told}({target.URI})\n"
    assert here.done("-q", *words)[1] == ""


def test_who_destroys_something_is_told_where(
    here: Here, redis_server: servers.RedisServer, project: str
) -> None:
    words = ("queue", "delete", "q", "--storage", redis_server.uri, "--project", project)
    at = f"at the store {redis_server.uri} (--storage)"
    assert f"Delete the queue q and its messages {at}? Say so with --yes." in here.refused(*words)
    assert here.done(*words, "--yes")[1] == f"zaqar-redis: {at}\n"


def test_passwords_are_told_to_nobody(
    home: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, uri in (
        (target.URL, "http://ann:geheim@127.0.0.1:1"),
        (target.URI, "redis://ann:geheim@127.0.0.1:1"),
    ):
        monkeypatch.delenv(target.URL, raising=False)
        monkeypatch.setenv(variable, uri)
        for words in (("queue", "list"), ("queue", "delete", "q"), ("profile", "show")):
            _, out, err = here.run(*words)
            assert "geheim" not in out + err
            assert "ann:***@127.0.0.1:1" in out + err
