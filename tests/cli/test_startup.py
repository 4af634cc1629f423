# SPDX-License-Identifier: Apache-2.0
"""A command imports what it needs and no more: imports are most of the time that one takes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

import pytest

from tests.support import processes, servers
from zaqar_redis.cli import pipeline

#: Each takes longer to import than a call of the service.
_HEAVY = {"falcon", "oslo_config", "oslo_policy", "pyspark", "redis", "rich", "zaqar_redis.api.app"}
_RUN = """
import sys
from zaqar_redis.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print("imported", *sys.modules)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with servers.redis_server() as server, servers.service(server.uri) as service:
        yield service.url


def _imported(*words: str) -> tuple[str, set[str]]:
    """Returns what the command writes, and the modules that its process has imported."""
    outcome = processes.run([sys.executable, "-c", _RUN, *words])
    assert outcome.returncode == 0, outcome.stderr
    shown, _, modules = outcome.stdout.rpartition("imported ")
    return shown, set(modules.split())


def test_help_lists_commands_without_importing_them() -> None:
    shown, modules = _imported("--help")
    assert "message tail" in shown
    assert "Follow a queue: show its last messages" in shown
    assert not modules & {*_HEAVY, "httpx", "zaqar_redis.cli.messages"}


def test_the_command_help_lists_the_same() -> None:
    assert _imported("help")[0] == _imported("--help")[0]


def test_a_command_for_a_service_imports_no_service(url: str) -> None:
    shown, modules = _imported("queue", "list", "--url", url, "-f", "json")
    assert shown == "[]\n"
    assert not modules & _HEAVY


@pytest.mark.parametrize(
    "command", [each for each in vars(pipeline).values() if getattr(each, "job_name", None)]
)
def test_the_list_of_commands_says_of_jobs_what_they_say_themselves(
    command: type[pipeline.PipelineCommand],
) -> None:
    job = importlib.import_module(f"zaqar_redis.spark.jobs.{command.job_name}")
    assert (job.__doc__ or "").startswith(f"{command.__doc__}\n")
