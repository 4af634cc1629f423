# SPDX-License-Identifier: Apache-2.0
"""The example for Docker Compose, without Docker."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from tests.conventions.files import ROOT
from tests.packages.options import unknown_variables
from tests.support import servers

_FOLDER = ROOT / "deploy" / "compose"
_SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((_FOLDER / "compose.yaml").read_text())[
    "services"
]


def test_the_file_is_one_of_compose() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    subprocess.run([*command, str(_FOLDER / "compose.yaml")], check=True, timeout=60)


@pytest.mark.parametrize("name", _SERVICES)
def test_a_container_is_read_only_unprivileged_and_reached_from_this_machine_alone(
    name: str,
) -> None:
    service = _SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert [port for port in service.get("ports", ()) if not port.startswith("127.0.0.1:")] == []


def test_mounted_files_exist() -> None:
    mounted = [
        volume.split(":")[0]
        for service in _SERVICES.values()
        for volume in service.get("volumes", ())
    ]
    files = [name for name in mounted if name.startswith(".")]
    assert files
    assert [name for name in files if not (_FOLDER / name).exists()] == []


def test_the_environment_of_the_service_sets_options_that_exist() -> None:
    assert unknown_variables(set(_SERVICES["zaqar-redis"]["environment"])) == set()


def test_variables_without_a_default_are_in_the_example() -> None:
    lines = (_FOLDER / "env.example").read_text().splitlines()
    examples = {line.lstrip("#").partition("=")[0] for line in lines if "=" in line}
    used = {
        text.partition(":")[0]
        for text in (_FOLDER / "compose.yaml").read_text().replace("$${", "").split("${")[1:]
    }
    assert {name for name in used if not name.endswith("_IMAGE")} <= examples


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def test_redis_accepts_its_configuration_and_evicts_nothing() -> None:
    with tempfile.TemporaryDirectory(prefix="zr-") as folder:
        socket = Path(folder, "redis.sock")
        words = ["--port", "0", "--unixsocket", str(socket), "--dir", folder]
        command = [servers.program(servers.REDIS), str(_FOLDER / "redis.conf"), *words]
        with (
            subprocess.Popen(command, stdout=subprocess.DEVNULL) as process,
            redis.Redis(unix_socket_path=str(socket)) as client,
        ):
            try:
                servers.wait_for(lambda: _answers(client), "Redis to start")
                found = client.config_get("maxmemory-policy", "appendonly", "maxmemory")
            finally:
                process.terminate()
    assert found == {
        "maxmemory-policy": "noeviction",
        "appendonly": "yes",
        "maxmemory": str(512 * 1024**2),
    }
