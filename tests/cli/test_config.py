# SPDX-License-Identifier: Apache-2.0
"""Invalid configurations: ``config check``, and commands that read them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.conventions.files import ROOT
from tests.conventions.test_sample_config import SAMPLE
from tests.support import servers
from tests.support.command_line import CommandLine
from zaqar_redis.conf.environment import OTHER_VARIABLES
from zaqar_redis.conf.groups import LISTEN, WEBSOCKET

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
def wrong(tmp_path: Path) -> str:
    return servers.config_file(tmp_path, f"[DEFAULT]{WRONG}")


def test_config_check_reports_every_problem(in_process: CommandLine, wrong: str) -> None:
    assert in_process.refused("config", "check", "--config-file", wrong).splitlines() == [
        f"[sever] in {wrong}: there is no such group; did you mean [server]?",
        f'[server] worker: there is no such option ({wrong}); did you mean "workers"?',
        f"[transport] uri: there is no such option ({wrong}); there is one in [storage]",
        f'[server] graceful_timeout: "soon" is not a whole number of at least 1 ({wrong})',
        "[channels] project: it may not be empty",
        "[channels] pong_timeout: it must be less than ping_interval (1)",
        "[auth] strategy: 0.0.0.0 is not an address of this machine alone, and everybody who "
        "reaches the service could act for every project; choose another strategy than none, "
        "bind to 127.0.0.1, or say --insecure",
    ]


def test_replicas_must_confirm_before_the_store_is_late(
    in_process: CommandLine, tmp_path: Path
) -> None:
    file = servers.config_file(tmp_path, "[redis]\nack_replicas = 1\nack_timeout = 5\n")
    refused = in_process.refused("config", "check", "--config-file", file)
    assert refused.strip() == "[redis] ack_timeout: it must be less than timeout (5)"


def test_number_without_digits_in_a_variable_is_reported(
    in_process: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAQAR_REDIS_TRANSPORT__MAX_WAIT", "")
    text = '[transport] max_wait: "" is not a whole number from 0 to 3600'
    assert in_process.refused("config", "check").strip().startswith(text)


def test_former_names_of_options_are_taken_with_a_warning(
    in_process: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = servers.config_file(tmp_path, "[auth:jwt]\nconsole_client_id = former\n")
    monkeypatch.setenv("ZAQAR_REDIS_CHANNELS__CONSOLE", "false")
    outcome = in_process.run("config", "show", "--config-file", file, "-f", "json")
    assert outcome.returncode == 0, outcome.stderr
    shown = {(each["group"], each["option"]): each["value"] for each in json.loads(outcome.stdout)}
    assert (shown["console", "enabled"], shown["console", "client_id"]) == ("False", "former")
    assert 'Use option "client_id" from group "console"' in outcome.stderr
    assert "ZAQAR_REDIS_CHANNELS__CONSOLE is called ZAQAR_REDIS_CONSOLE__ENABLED" in outcome.stderr
    monkeypatch.setenv("ZAQAR_REDIS_CHANNELS__CONSOLE", "perhaps")
    servers.config_file(tmp_path, "[console]\nenabled = true\n")  # a variable comes before any file
    refused = in_process.refused("config", "check", "--config-file", file).splitlines()[-1]
    assert refused == (
        '[console] enabled: "perhaps" is not true or false (ZAQAR_REDIS_CHANNELS__CONSOLE)'
    )


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
def test_commands_refuse_a_configuration_with_unknown_names(
    home: Path, in_process: CommandLine, wrong: str, words: tuple[str, ...]
) -> None:
    message = in_process.refused(*words, "--config-file", wrong)
    assert f"[sever] in {wrong}: there is no such group" in message
    assert f"[server] worker: there is no such option ({wrong})" in message
    assert "geheim" not in message
    assert list(home.iterdir()) == []


_JWT = """
[auth]
strategy = jwt
[auth:jwt]
issuer = https://id.example.org
audience = zaqar
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[default]\nadmin_mode = true", "[default] in {}: there is no such group"),
        ("[storage]\nurl = redis://h", "[storage] url: there is no such option ({}); did you mean"),
        ("[server]\nzzz = 1", "[server] zzz: there is no such option ({})\n"),
        ("[storage]\nuri = redsi://h", "no storage driver is installed"),
        ("[storage]\nuri = embedded://h/d", "it must be embedded://"),
        ("[storage]\nuri = redis://[h", "[storage] uri: "),
        ("[storage]\nuri = memory://\n[server]\nworkers = 2", "memory:// works with one worker"),
        ("[DEFAULT]\npooling = false\n[quota]\nqueues = 5", "[quota]: quotas need a control store"),
        ("[quota]\nqueues = -2", '[quota] queues: "-2" is not a whole number from -1 to'),
        ("[server]\nworkers = 0", '[server] workers: "0" is not a whole number from 1 to 256 ({})'),
        ("[server]\nworkers =", '[server] workers: "" is not a whole number from 1 to 256 ({})'),
        ("[server]\nlog_format = xml", 'log_format: "xml" is not plain, json or oslo ({})'),
        ("[server]\nlog_levels = a=loud", '[server] log_levels: "a=loud" must be like'),
        ("[DEFAULT]\nadmin_mode = x", '[DEFAULT] admin_mode: "x" is not true or false ({})'),
        ("[channels]\ntoken_rsa_public_key = x", "[channels] token_rsa_public_key"),
        ("[channels]\nuris = redis://u:geheim@h?nonsense=1", "[channels] uris"),
        ("[channels]\nbus = redsi://u:geheim@h", "[channels] bus: redsi://u:***@h: no bus is inst"),
        ("[channels]\nbus = redis://a, nats://b", "bus: several URIs must be of one kind"),
        ("[channels]\nbus = redis://u:geheim@h?nonsense=1", "[channels] bus: storage URI"),
        (
            "[storage]\nuri = memory://\n[channels]\nbus = redis://h\n"
            "history_size = 1\nhistory_ttl = 1",
            "[channels] bus: with [storage] uri memory:// each worker has histories of its own",
        ),
        (
            "[transport]\nclient_id_uuid_safe = off\nmin_length_client_id = 40",
            "[transport] min_length_client_id: it must be at most max_length_client_id (36)",
        ),
        (f"[{WEBSOCKET}]\nport = 8888", "port: 8888 is the port of the whole service"),
        ("[metrics]\nport = 8888", "[metrics] port: 8888 is a port of the service itself"),
        ("[metrics]\nqueues = orders", "[metrics] queues: orders: it must be PROJECT/NAME"),
        ("[metrics]\nqueues = p/a b", "[metrics] queues: p/a b: "),
        ("[metrics]\nqueues_max = 1001", '[metrics] queues_max: "1001" is not a whole number from'),
        ("[audit]\nactions = queues:*, queue:delete", 'actions: the policy has no rule "queue:del'),
        (f"{_JWT}roles = raeder=x, member=y", 'no rule of the policy names the role "raeder"'),
        ("no = group", "{}"),
    ],
)
def test_config_check_reports_a_single_problem(
    in_process: CommandLine, tmp_path: Path, text: str, message: str
) -> None:
    file = servers.config_file(tmp_path, text)
    captured = in_process.refused("config", "check", "--config-file", file)
    assert message.format(file) in captured
    assert "geheim" not in captured


def test_config_check_without_opentelemetry_names_the_extra(
    in_process: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is None cannot be imported.
    missing = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, missing, None)
    file = servers.config_file(tmp_path, "[tracing]\nenabled = true")
    refused = in_process.refused("config", "check", "--config-file", file)
    assert "[tracing] enabled: it needs OpenTelemetry" in refused
    assert "pip install '.[opentelemetry]'" in refused


@pytest.mark.parametrize(
    "text", [SAMPLE.read_text(), "[Server]\nworkers = 2\n[channels:Queue]\npresence = true"]
)
def test_config_check_accepts_a_valid_configuration(
    in_process: CommandLine, tmp_path: Path, text: str
) -> None:
    file = servers.config_file(tmp_path, text)
    checked = in_process.done("config", "check", "--config-file", file)
    assert checked == f"{file}: no problems found\n"


def test_config_check_names_what_is_open(in_process: CommandLine, tmp_path: Path) -> None:
    file = servers.config_file(
        tmp_path,
        "[channels]\ntoken_any_project = yes\napi_insecure = yes\ntoken_hmac_secret_key = short\n"
        "[notification]\nallowed_networks = 10.0.0.0/8,::/0\nsmtp_insecure = yes\n"
        "[signed_url]\nsecret_key = short\n",
    )
    first, *found = in_process.done("config", "check", "--config-file", file).splitlines()
    assert first == f"{file}: no problems found"
    named = [line.partition(":")[0::2] for line in found]
    assert [(severity, text.split(":")[0].strip()) for severity, text in named] == [
        ("critical", "[channels] api_insecure"),
        ("warning", "[signed_url] secret_key has 5 characters"),
        ("warning", "[channels] token_hmac_secret_key has 5 bytes, and HS256 wants 32 at least"),
        ("warning", "[channels] token_any_project"),
        ("warning", "[notification] allowed_networks"),
        ("warning", "[notification] smtp_insecure"),
    ]


def test_config_check_works_without_a_file(home: Path, in_process: CommandLine) -> None:
    assert in_process.done("config", "check") == "no configuration file: no problems found\n"
    assert "nowhere.conf" in in_process.refused("config", "check", "--config-file", "nowhere.conf")


def test_config_show_names_origins_and_hides_secrets(
    in_process: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one.conf", tmp_path / "two.conf"
    one.write_text(
        "[server]\nworkers = 2\n[storage]\nuri = redis://u:geheim@h\n[channels]\napi_key = geheim\n"
        "uris = redis://:geheim@a, redis://:geheim@b\nnamespaces = chat\n"
        "[channels:chat]\npresence = true"
    )
    two.write_text("[server]\nworkers = 3")
    monkeypatch.setenv("ZAQAR_REDIS_SERVER__LOG_LEVEL", "debug")
    files = ("--config-file", str(one), "--config-file", str(two))
    rows = in_process.shown("config", "show", *files)
    shown = {(row["group"], row["option"]): (row["value"], row["from"]) for row in rows}
    assert shown["server", "workers"] == ("3", str(two))
    assert shown["server", "log_level"] == ("debug", "ZAQAR_REDIS_SERVER__LOG_LEVEL")
    assert shown["DEFAULT", "admin_mode"] == ("False", "default")
    assert shown["storage", "uri"] == ("redis://u:***@h", str(one))
    assert shown["channels", "uris"] == ("redis://:***@a, redis://:***@b", str(one))
    assert shown["channels", "api_key"] == ("***", str(one))
    assert shown["channels", "token_hmac_secret_key"] == ("", "default")
    assert shown["channels:chat", "presence"] == ("True", str(one))
    assert "geheim" not in str(rows)


def test_config_check_of_a_policy_that_cannot_be_read_prints_no_traceback(
    in_process: CommandLine, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('"queues:create": "role:nobody or"\n')
    file = servers.config_file(tmp_path, f"{_JWT}[oslo_policy]\npolicy_file = {policy}\n")
    refused = in_process.refused("config", "check", "--config-file", file)
    assert "queues:create" in refused
    assert "Traceback" not in refused


def test_config_check_accepts_roles_that_its_policy_does_not_name(
    in_process: CommandLine, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('"admin_or_writer": "rule:admin_or_owner"\n')
    file = servers.config_file(tmp_path, f"{_JWT}[oslo_policy]\npolicy_file = {policy}\n")
    assert "no problems" in in_process.done("config", "check", "--config-file", file)


def test_options_are_above_variables_above_files_above_defaults(
    in_process: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = servers.config_file(
        tmp_path, "[server]\nworkers = 2\ngraceful_timeout = 20\nlog_level = debug\n"
    )
    monkeypatch.setenv("ZAQAR_REDIS_SERVER__WORKERS", "3")
    monkeypatch.setenv("ZAQAR_REDIS_SERVER__GRACEFUL_TIMEOUT", "30")
    monkeypatch.setenv("ZAQAR_REDIS_ADMIN_MODE", "true")
    monkeypatch.setenv("ZAQAR_REDIS_DRIVERS_TRANSPORT_WSGI__PORT", "1234")
    monkeypatch.setenv("ZAQAR_REDIS_CHANNELS__NAMESPACES", "chat")
    monkeypatch.setenv("ZAQAR_REDIS_CHANNELS_CHAT__PRESENCE", "true")
    monkeypatch.setenv("ZAQAR_REDIS_STORAGE__CONTROL_URI", "redis://:geheim@control")
    monkeypatch.setenv("ZAQAR_REDIS_CHANNELS__API_KEY", "geheim")
    options = ("--config-file", file, "--workers", "4", "--storage", "redis://:geheim@h")
    rows = in_process.shown("config", "diff", *options)
    assert "geheim" not in str(rows)
    assert {
        (row["group"], row["option"]): (row["value"], row["default"], row["from"]) for row in rows
    } == {
        ("server", "workers"): ("4", "1", "--workers"),
        ("server", "log_level"): ("debug", "info", file),
        ("DEFAULT", "admin_mode"): ("True", "False", "ZAQAR_REDIS_ADMIN_MODE"),
        (LISTEN, "port"): ("1234", "8888", "ZAQAR_REDIS_DRIVERS_TRANSPORT_WSGI__PORT"),
        ("storage", "uri"): ("redis://:***@h", "embedded://", "--storage"),
        ("storage", "control_uri"): (
            "redis://:***@control",
            "",
            "ZAQAR_REDIS_STORAGE__CONTROL_URI",
        ),
        ("channels", "api_key"): ("***", "", "ZAQAR_REDIS_CHANNELS__API_KEY"),
        ("channels", "namespaces"): ("chat", "", "ZAQAR_REDIS_CHANNELS__NAMESPACES"),
        ("channels:chat", "presence"): ("True", "False", "ZAQAR_REDIS_CHANNELS_CHAT__PRESENCE"),
    }
    shown = in_process.shown("config", "show", *options)
    [workers] = [row for row in shown if row["option"] == "workers"]
    assert (workers["value"], workers["from"]) == ("4", "--workers")
    [timeout] = [row for row in shown if row["option"] == "graceful_timeout"]
    assert (timeout["value"], timeout["from"]) == ("30", "ZAQAR_REDIS_SERVER__GRACEFUL_TIMEOUT")


def test_store_of_the_environment_has_its_origin(
    in_process: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAQAR_REDIS_URI", "redis://short")
    monkeypatch.setenv("ZAQAR_REDIS_STORAGE__URI", "redis://long")
    [row] = in_process.shown("config", "diff")
    assert (row["value"], row["from"]) == ("redis://short", "ZAQAR_REDIS_URI")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "ZAQAR_REDIS_SERVER__WORKER",
            "2",
            "ZAQAR_REDIS_SERVER__WORKER: there is no such option (environment); did you mean "
            "ZAQAR_REDIS_SERVER__WORKERS?",
        ),
        ("ZAQAR_REDIS_SERVER__WORKERS", "many", "(ZAQAR_REDIS_SERVER__WORKERS)"),
        (
            "ZAQAR_REDIS_CHANNELS_A_B__PRESENCE",
            "true",
            "it is [channels:a-b] presence and [channels:a.b] presence; set these in a file",
        ),
    ],
)
def test_wrong_variables_are_reported(
    in_process: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    message: str,
) -> None:
    file = servers.config_file(tmp_path, "[channels]\nnamespaces = a-b, a.b\n")
    monkeypatch.setenv(name, value)
    assert message in in_process.refused("config", "check", "--config-file", file)


def test_variables_of_others_are_no_options(
    in_process: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        # Kubernetes sets these for a service of this name.
        *("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8888_TCP"),
        *("PORT_8888_TCP_ADDR", "METRICS_SERVICE_HOST", "METRICS_PORT_9090_TCP_PROTO"),
    ):
        monkeypatch.setenv(f"ZAQAR_REDIS_{name}", "tcp://10.0.0.1:8888")
    assert "no problems" in in_process.done("config", "check")


def test_variables_that_the_code_reads_are_known_not_to_be_options() -> None:
    texts = [path.read_text() for path in (ROOT / "zaqar_redis").rglob("*.py")]
    read = {name for text in texts for name in re.findall(r'"(ZAQAR_REDIS_[A-Z_]+[A-Z])"', text)}
    assert read == OTHER_VARIABLES
