# SPDX-License-Identifier: Apache-2.0
"""The client by itself: in an environment that has nothing else, its documents' examples work."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conventions.files import ROOT
from tests.packages import distributions
from tests.support import servers

_EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the client's wheel and what that requires."""
    folder = tmp_path_factory.mktemp("client")
    names = [name for name in distributions.sources() if name.startswith("client/")]
    distributions.copy_of_the_sources(folder / "source", names)
    distributions.build(folder / "source" / "client", folder / "dist", "--wheel")
    [wheel] = (folder / "dist").glob("*.whl")
    distributions.install(wheel, folder / "environment", "zaqar-redis-client")
    return folder / "environment" / "bin" / "python"


def _run(python: Path, program: str) -> str:
    done = subprocess.run(
        [python, "-I", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_of_its_documents_work_as_printed(
    python: Path, running: servers.RunningService
) -> None:
    readme = _EXAMPLE.findall((ROOT / "client" / "README.md").read_text())
    for example in [*readme, *_EXAMPLE.findall((ROOT / "doc" / "client.md").read_text())]:
        program = example.replace("URL", repr(running.url)).replace(
            '"http://127.0.0.1:8888"', repr(running.url)
        )
        printed = _run(python, program)
        assert ("done: {'job': 1}" in printed) == ("done:" in program)


def test_examples_of_workers_work_as_printed(
    python: Path, running: servers.RunningService, tmp_path: Path
) -> None:
    examples = _EXAMPLE.findall((ROOT / "doc" / "workers.md").read_text())
    [module, poster] = [each.replace("http://127.0.0.1:8888", running.url) for each in examples]
    (tmp_path / "mails.py").write_text(module)
    log = tmp_path / "log"
    command = [str(python.with_name("zaqar-redis-worker")), "mails:worker"]
    process = servers.start_logged(command, log, {"PYTHONPATH": ""}, tmp_path)
    with servers.stopping(process):
        environment = os.environ | {"PYTHONPATH": ""}
        subprocess.run([python, "-c", poster], cwd=tmp_path, env=environment, check=True)
        servers.wait_for(lambda: "ann: hi" in log.read_text(), "the first job")
        servers.wait_for(lambda: "eve: do not forget" in log.read_text(), "the second job")
    assert process.returncode == 0
    assert "ERROR" not in log.read_text()


def test_it_needs_nothing_of_the_service(python: Path) -> None:
    assert _run(python, "import zaqar_redis_client, sys; print('zaqar_redis' in sys.modules)") == (
        "False\n"
    )
    with pytest.raises(AssertionError, match="No module named"):
        _run(python, "import zaqar_redis")
