# SPDX-License-Identifier: Apache-2.0
"""dramatiq's own tests pass with the service's broker in the place of theirs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.client import dramatiq_fixtures
from tests.support import processes, servers

#: Those that use a broker; all others test parts of dramatiq by themselves.
_FILES = ["actors", "callbacks", "composition", "encoders", "generic_actors", "messages"]
_FILES += ["redis", "results", "worker"]

#: Tests that cannot pass, by the reason.
_LEFT_OUT = {
    "they read what the broker for tests or that on Redis stores where, or call its scripts": [
        "actors::test_actors_can_be_sent_messages",
        "actors::test_messages_belonging_to_missing_actors_are_rejected",
        "actors::test_worker_handles_non_numeric_eta_and_logs_warning",
        "actors::test_worker_handles_none_eta",
        "redis::test_redis_broker_can_connect_via_client",
        "redis::test_redis_broker_can_connect_via_url",
        "redis::test_redis_broker_raises_attribute_error_when_given_an_invalid_attribute",
        "redis::test_redis_consumer_ack_can_retry_on_connection_error",
        "redis::test_redis_consumer_nack_can_retry_on_connection_error",
        "redis::test_redis_dead_lettered_messages_are_cleaned_up",
        "redis::test_redis_join_race_condition",
        "redis::test_redis_messages_belonging_to_missing_actors_are_rejected",
        "redis::test_redis_messages_can_be_dead_lettered",
        "redis::test_redis_requeues_unhandled_delay_messages_on_shutdown",
        "redis::test_redis_requeues_unhandled_messages_on_shutdown",
        "redis::test_redis_unacked_messages_can_be_requeued",
    ],
    "it rejects a message that no consumer has returned": [
        "redis::test_redis_consumer_nack_does_not_raise_on_missing_id",
    ],
    "they need a Redis for results": [
        "results::test_messages_without_actor_not_crashing_lookup_options",
    ],
}


@pytest.fixture(scope="module")
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the installed release's source, its tests with what they need beside them."""
    release = f"dramatiq=={version('dramatiq')}"
    downloads = request.config.cache.mkdir(release)  # kept for the next run
    if not any(downloads.glob("*.tar.gz")):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        pip += ["--no-binary", "dramatiq", "--dest", str(downloads), release]
        subprocess.run(pip, check=True, timeout=120)
    (archive,) = downloads.glob("*.tar.gz")
    folder = tmp_path_factory.mktemp("dramatiq")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (source,) = [path for path in folder.iterdir() if path.is_dir()]
    # By itself: the dramatiq that is installed is what they import.
    tests = (source / "tests").rename(folder / "tests")
    (tests / "__init__.py").touch()
    for name in ("conftest.py", "common.py"):
        (tests / name).write_text(Path(dramatiq_fixtures.__file__).read_text())
    return folder


@pytest.mark.nightly  # many of them wait for seconds
@pytest.mark.timeout(400)
def test_dramatiq_test_suite_passes(suite: Path, running: servers.RunningService) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--timeout", "60", "--tb=short"]
    for names in _LEFT_OUT.values():
        command += [f"--deselect=tests/test_{name.replace('::', '.py::')}" for name in names]
    command += [f"tests/test_{name}.py" for name in _FILES]
    environment = os.environ | {
        "SERVICE": running.url,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = processes.run(command, timeout=380, cwd=suite, env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed
    assert int(passed[1]) >= 93
