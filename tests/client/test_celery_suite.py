# SPDX-License-Identifier: Apache-2.0
"""Celery's integration tests, from its sdist, with the service as the broker."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.client import sdists
from tests.client.celery_app import environment
from tests.support import processes, servers
from tests.support.backends import Backend

#: doc/celery.md lists the other files, with the reasons.
_PARTS = {
    "tasks": ("test_inspect.py", "test_loader.py", "test_tasks.py"),
    "others": ("test_dedup_chain_dispatch.py", "test_prefork_shutdown.py"),
    "chords": ("test_canvas.py", "-k", "test_chord"),
    "canvas": ("test_canvas.py", "-k", "not test_chord"),
}
_CHAIN, _CHORD = "test_canvas.py::test_chain", "test_canvas.py::test_chord"
_LEFT_OUT = (
    # It wants to see tasks with an ETA in a worker: they wait in the service.
    "test_inspect.py::test_Inspect::test_scheduled",
    # It publishes an object of Python as a property, which is no JSON; with Redis it fails, too.
    f"{_CHAIN}::test_chord_header_id_duplicated_on_rabbitmq_msg_duplication",
    # Its reads from Redis time out; with Redis as the broker, too.
    f"{_CHORD}::test_nested_chord_header_link_error",
    # They wait for minutes for what does not come.
    f"{_CHORD}::test_enabling_flag_allow_error_cb_on_chord_header",
    f"{_CHORD}::test_disabling_flag_allow_error_cb_on_chord_header",
    f"{_CHORD}::test_flag_allow_error_cb_on_chord_header_on_upgraded_chord",
)
#: A chord of 1000 tasks is one message.
_OPTIONS = {"transport": {"max_messages_post_size": 4 * 1024 * 1024}}


@pytest.mark.nightly
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("part", _PARTS)
def test_integration_tests_of_celery_pass(
    request: pytest.FixtureRequest, redis_server: Backend, project: str, tmp_path: Path, part: str
) -> None:
    source = sdists.unpacked("celery", request.config, tmp_path / "source")
    shutil.copytree(source / "t", tmp_path / "t")  # Celery itself is the installed one
    with (
        servers.redis_server() as results,
        servers.service(redis_server.uri, options=_OPTIONS) as service,
    ):
        port = str(results.open_port())
        variables = environment(
            TEST_BROKER=f"zaqar-redis://127.0.0.1:{service.port}/{project}",
            TEST_BACKEND=f"redis://127.0.0.1:{port}",
            REDIS_HOST="127.0.0.1",
            REDIS_PORT=port,
            WORKER_LOGLEVEL="INFO",
        )
        # Some have a limit of seconds, and those that a busy machine fails have a mark for another
        # try: they get one.
        for again in ((), ("--last-failed",)):
            command = [
                *(sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", "."),
                *("-p", "no:timeout", "-p", "celery.contrib.pytest"),
                *("-p", "zaqar_redis_client.kombu", "--override-ini", "python_classes=test_*"),
                *(f"--deselect=t/integration/{each}" for each in _LEFT_OUT),
                *again,
                *(f"t/integration/{each}" if ".py" in each else each for each in _PARTS[part]),
            ]
            done = processes.run(command, timeout=900, cwd=tmp_path, env=variables)
            if done.returncode == 0:
                return
        pytest.fail(done.stdout[-8000:] + done.stderr[-2000:])
