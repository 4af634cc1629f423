# SPDX-License-Identifier: Apache-2.0
"""kombu's own tests of transports, from its sdist, with ours."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.client import sdists
from tests.client.celery_app import environment
from tests.support import processes, servers

#: Each class of t/integration/common.py; each process has a project of its own.
_INTEGRATION = """
import os

import kombu
import pytest
import zaqar_redis_client.kombu

from . import common

URL = os.environ["TEST_BROKER"] + os.environ.get("PYTEST_XDIST_WORKER", "")
NOBODY = "zaqar-redis://127.0.0.1:1/nobody"


@pytest.fixture
def connection():
    return kombu.Connection(URL)


@pytest.fixture
def invalid_connection():
    return kombu.Connection(NOBODY)


@pytest.fixture
def failover_connection():
    return kombu.Connection(f"{NOBODY};{URL}")


for _name, _class in [*vars(common).items()]:
    if isinstance(_class, type) and _class.__module__ == common.__name__:
        globals()[f"test_{_name}"] = type(f"test_{_name}", (_class,), {})
"""
#: Of the channel that all transports are made from.
_UNIT = "t/unit/transport/virtual/test_base.py"
_LEFT_OUT = {
    # It looks at what fails when unacknowledged messages are restored one by one.  Ours are
    # released together, and those that cannot be come back when their leases end.
    f"{_UNIT}::test_Channel::test_restore_unacked_raises_BaseException",
}
_OF_UNIT_TESTS = "transport='kombu.transport.virtual:Transport'"


@pytest.fixture(scope="module")
def kombu_tests(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with kombu's tests: kombu itself is the installed one."""
    folder = tmp_path_factory.mktemp("kombu")
    source = sdists.unpacked("kombu", request.config, folder / "source")
    shutil.copytree(source / "t", folder / "t")
    return folder


def _run(folder: Path, broker: str, *words: str) -> str:
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", "."),
        *("-p", "no:cacheprovider", "--override-ini", "python_classes=test_*", *words),
    ]
    done = processes.run(
        command, cwd=folder, timeout=200, env=environment(TEST_BROKER=broker, CI="true")
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


def _passed(output: str) -> int:
    found = re.search(r"(\d+) passed", output)
    assert " skipped" not in output
    return int(found[1]) if found else 0


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("chosen", "least"),
    [
        # Those that wait for seconds to pass; failover has all basic tests once more.
        pytest.param("not TimeToLive and not Failover and not failed", 23, id="short"),
        pytest.param("", 47, id="all", marks=pytest.mark.nightly),
    ],
)
def test_integration_tests_of_kombu_pass(
    kombu_tests: Path, running: servers.RunningService, project: str, chosen: str, least: int
) -> None:
    (kombu_tests / "t/integration/test_zaqar_redis.py").write_text(_INTEGRATION)
    # They wait for what does not come, most of the time.
    words = ("--numprocesses", "2", "-k", chosen, "t/integration/test_zaqar_redis.py")
    broker = f"zaqar-redis://127.0.0.1:{running.port}/{project}"
    assert _passed(_run(kombu_tests, broker, *words)) >= least


def test_unit_tests_of_virtual_channels_pass(
    kombu_tests: Path, running: servers.RunningService, project: str
) -> None:
    path = kombu_tests / _UNIT
    text = path.read_text()
    assert _OF_UNIT_TESTS in text
    ours = (
        "transport='zaqar_redis_client.kombu:Transport', hostname='127.0.0.1', "
        f"port={running.port}, virtual_host='{project}'"
    )
    path.write_text(text.replace(_OF_UNIT_TESTS, ours))
    words = [f"--deselect={each}" for each in sorted(_LEFT_OUT)]
    assert (
        _passed(_run(kombu_tests, "", *words, path.parent.relative_to(kombu_tests).as_posix()))
        >= 92
    )
