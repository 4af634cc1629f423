# SPDX-License-Identifier: Apache-2.0
"""Commands without a target option find the running service, and never create a store."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import servers
from tests.support.backends import Backend
from tests.support.command_line import CommandLine
from tests.support.processes import ZAQAR_REDIS
from zaqar_redis import errors
from zaqar_redis.cli import profile_file, target

NOWHERE = "http://127.0.0.1:1"
_HEADERS = {"Client-ID": "9d3f6c0e-8f0d-4c55-a2f3-6b3a0f4d6a10", "X-Project-ID": "default"}
#: A command of each kind that needs a store.
STORE_COMMANDS = (
    ("queue", "list"),
    ("message", "post", "q", "x"),
    ("check",),
    ("sweep",),
    ("import-stock", "--from", "redis://127.0.0.1:1"),
    ("backup", "--to", "file"),
    ("restore", "--from", "file"),
    ("pipeline", "audit", "--queue", "q", "lake"),
)


@contextlib.contextmanager
def _service_of(home: Path) -> Iterator[servers.RunningService]:
    """Starts a service as in the tutorial, except for its port, which might be taken."""
    port = servers.free_port()
    (home / "zaqar_redis.conf").write_text(f"[drivers:transport:wsgi]\nport = {port}\n")
    log = home / "service.log"
    process = servers.start_logged([*ZAQAR_REDIS, "serve"], log)
    with servers.watched(process, port, log) as running:
        yield running


def test_commands_without_options_reach_the_local_service(
    home: Path, in_process: CommandLine
) -> None:
    data = home / ".local" / "share" / "zaqar-redis"
    with _service_of(home) as service:
        message = in_process.notices("message", "post", "orders", "one")
        assert message == f"zaqar-redis: at the service {service.url} (the default)\n"
        found = httpx.get(f"{service.url}/v2/queues", headers=_HEADERS, timeout=30)
        listed = found.json()["queues"]
        assert [queue["name"] for queue in listed] == ["orders"]
        message = in_process.notices("check")
        assert message.startswith(f"zaqar-redis: at the store embedded://{data} (the default)\n")
        assert "1 messages" in message
        importing = ("import-stock", "--from", "redis://127.0.0.1:1")
        assert "no target store" in in_process.refused(
            *importing
        )  # an import has no default target
    # The data still exist, but no running service uses them.
    assert f"no service uses embedded://{data}" in in_process.refused("check")
    assert in_process.shown("check", "--storage", "embedded://") == []


def test_stopped_service_is_reported_with_the_remedy(home: Path, in_process: CommandLine) -> None:
    message = in_process.refused("queue", "list", "--config-file", str(_config(home, "port = 1")))
    assert f"the service {NOWHERE} (the default) does not answer" in message
    for way in (
        *("zaqar-redis serve", "--url", "--storage", target.URL_VARIABLE, target.URI_VARIABLE),
        "profile",
    ):
        assert way in message
    assert [path.name for path in home.iterdir()] == ["zaqar_redis.conf"]


@pytest.mark.parametrize("words", STORE_COMMANDS, ids=lambda words: words[0])
def test_mistyped_data_directory_is_not_created(
    home: Path, in_process: CommandLine, words: tuple[str, ...]
) -> None:
    (home / "empty").mkdir()
    for folder in (home / "data", home / "empty"):
        message = in_process.refused(*words, "--storage", f"embedded://{folder}")
        assert f"{folder} is not a data directory: only `zaqar-redis serve` creates one" in message
    assert [path.name for path in home.iterdir()] == ["empty"]
    assert list((home / "empty").iterdir()) == []


def _config(home: Path, listen: str, store: str = "") -> Path:
    file = home / "zaqar_redis.conf"
    file.write_text(f"[drivers:transport:wsgi]\n{listen}\n[storage]\n{store}\n")
    return file


def _given(**options: object) -> argparse.Namespace:
    return argparse.Namespace(**options)


def test_target_precedence_is_option_environment_profile_configuration_default(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both(**options: object) -> list[str]:
        given = _given(**options)
        return [str(target.resolve(given)), str(target.resolve(given, store_only=True))]

    default = target.resolve(_given())
    assert str(default) == "the service http://127.0.0.1:8888 (the default)"
    file = _config(home, "bind = ::\nport = 7", "uri = redis://of-file")
    assert both() == [f"the store redis://of-file ({file})"] * 2
    with profile_file.locked_for_update() as profiles:
        profiles.profiles["prod"] = profile_file.Profile(url="http://prod", uri="redis://prod")
        profiles.profiles["test"] = profile_file.Profile(uri="redis://test")
        profiles.in_use = "prod"
    prod = ["the service http://prod (profile prod)", "the store redis://prod (profile prod)"]
    assert both() == prod
    monkeypatch.setenv(target.URI_VARIABLE, "redis://env")
    assert both() == [f"the store redis://env ({target.URI_VARIABLE})"] * 2
    monkeypatch.setenv(target.URL_VARIABLE, "http://env/v2")
    by = f"{target.URL_VARIABLE}, {target.URI_VARIABLE}"
    assert both() == [f"the service http://env ({by})", f"the store redis://env ({by})"]
    assert both(config_file=[str(file)]) == [f"the store redis://of-file ({file})"] * 2
    assert both(profile="test") == ["the store redis://test (profile test)"] * 2
    assert both(storage="redis://typed") == ["the store redis://typed (--storage)"] * 2
    assert str(target.resolve(_given(url="http://typed"))) == "the service http://typed (--url)"


def test_empty_environment_variable_is_ignored(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(target.URL_VARIABLE, "")
    monkeypatch.setenv(target.URI_VARIABLE, "")
    assert target.resolve(_given()).is_default


def test_service_target_is_refused_for_store_commands(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with profile_file.locked_for_update() as profiles:
        profiles.profiles["prod"] = profile_file.Profile(uri="redis://of-another")
        profiles.in_use = "prod"
    monkeypatch.setenv(target.URL_VARIABLE, NOWHERE)
    with pytest.raises(
        errors.BadConfiguration, match=f"{target.URL_VARIABLE} names only a service"
    ):
        target.resolve(_given(), store_only=True)


@pytest.mark.parametrize(
    ("bind", "host"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("queues", "queues")],
)
def test_default_target_uses_the_configured_bind_address(home: Path, bind: str, host: str) -> None:
    _config(home, f"bind = {bind}\nport = 7777")
    assert target.resolve(_given()).url == f"http://{host}:7777"


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
def test_service_url_may_end_in_its_version(given: str, url: str) -> None:
    assert target.service_url(given) == url


@pytest.mark.parametrize("given", ["127.0.0.1:8888", "redis://h", "http://", "http://h:x", "/v2"])
def test_invalid_service_url_is_refused(
    home: Path, in_process: CommandLine, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    usage = in_process.misused("queue", "list", "--url", given)
    assert f"{given}: it must be like http://127.0.0.1:8888" in usage
    monkeypatch.setenv(target.URL_VARIABLE, given)
    assert f"{target.URL_VARIABLE}: {given}: it must be like" in in_process.refused("queue", "list")


@pytest.mark.parametrize("ending", ["", "/", "/v2", "/v2/"])
def test_versioned_service_url_reaches_queues_and_channels(
    in_process: CommandLine, service: servers.RunningService, project: str, ending: str
) -> None:
    where = ("--url", f"{service.url}{ending}", "--project", project)
    in_process.done("queue", "create", "q", *where)
    assert in_process.shown("queue", "list", *where) == [{"name": "q"}]
    assert "API key" in in_process.refused("channel", "list", *where)


def test_statistics_count_idempotency_records(
    in_process: CommandLine, service: servers.RunningService, project: str
) -> None:
    httpx.post(
        f"{service.url}/v2/queues/q/messages",
        json={"messages": [{"body": 1}]},
        headers={**_HEADERS, "X-Project-ID": project, "Idempotency-Key": "one"},
        timeout=30,
    ).raise_for_status()
    stats = in_process.shown("queue", "stats", "q", "--url", service.url, "--project", project)
    assert stats["idempotency_records"] == 1


def test_implied_target_is_named_on_stderr(
    home: Path, in_process: CommandLine, redis_server: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("queue", "list")
    assert in_process.notices(*words, "--storage", redis_server.uri) == ""
    message = f"zaqar-redis: at the store {redis_server.uri} "
    assert in_process.notices("-v", *words, "--storage", redis_server.uri).startswith(message)
    monkeypatch.setenv(target.URI_VARIABLE, redis_server.uri)
    assert in_process.notices(*words) == f"{message}({target.URI_VARIABLE})\n"
    assert in_process.notices("-q", *words) == ""


def test_destructive_command_names_its_target(
    in_process: CommandLine, redis_server: Backend, project: str
) -> None:
    target_words = ("q", "--storage", redis_server.uri, "--project", project)
    words = ("queue", "delete", *target_words)
    in_process.done("queue", "create", *target_words)
    at = f"at the store {redis_server.uri} (--storage)"
    asked = (
        f"Delete the queue q and its messages of the project {project} {at}? Confirm with --yes."
    )
    assert asked in in_process.refused(*words)
    assert in_process.notices(*words, "--yes") == f"zaqar-redis: {at}\n"


def test_passwords_are_not_printed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = CommandLine(patience=0.1)  # nobody answers, however long it waits
    for variable, uri in (
        (target.URL_VARIABLE, "http://ann:geheim@127.0.0.1:1"),
        (target.URI_VARIABLE, "redis://ann:geheim@127.0.0.1:1"),
    ):
        monkeypatch.delenv(target.URL_VARIABLE, raising=False)
        monkeypatch.setenv(variable, uri)
        for words in (("queue", "list"), ("queue", "delete", "q"), ("profile", "show")):
            outcome = hasty.run(*words)
            assert "geheim" not in outcome.stdout + outcome.stderr
            assert "ann:***@127.0.0.1:1" in outcome.stdout + outcome.stderr


def test_project_with_letters_of_latin1_is_the_same_for_service_and_store() -> None:
    with servers.redis_server() as redis, servers.service(redis.uri) as service:
        shells = [CommandLine(["--url", service.url]), CommandLine(["--storage", redis.uri])]
        for number, each in enumerate(shells):
            each.done("message", "post", "q", str(number), "--project", "ünï")
        assert shells[1].shown("project", "list") == [{"project": "ünï", "queues": 1}]
        for each in shells:
            listed = each.shown("message", "list", "q", "--project", "ünï")
            assert [message["body"] for message in listed] == [0, 1]


@pytest.mark.parametrize("option", ["--project", "--token", "--client-id", "--api-key"])
def test_option_that_no_header_can_carry_is_refused(in_process: CommandLine, option: str) -> None:
    command = ("channel", "list") if option == "--api-key" else ("queue", "list")
    for text, why in (("日本", "'日' is neither"), ("a\nb", "no control"), ("a ", "no spaces")):
        usage = in_process.misused(*command, "--url", NOWHERE, option, text)
        assert f"argument {option}: " in usage
        assert why in " ".join(usage.split())
