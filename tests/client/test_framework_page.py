# SPDX-License-Identifier: Apache-2.0
"""The examples of doc/dramatiq-taskiq.md, with the commands that it prints."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.client import frameworks
from tests.conventions.files import ROOT
from tests.support import processes, servers

_EXAMPLE = re.compile(r"`(\w+)\.py`:\n\n```python\n(.*?)```", re.DOTALL)
_COMMANDS = {"jobs": ["dramatiq", "jobs"], "tasks": ["taskiq", "worker", "tasks:broker"]}


@pytest.mark.parametrize("name", _COMMANDS)
def test_example_greets_as_printed(
    name: str, running: servers.RunningService, project: str, tmp_path: Path
) -> None:
    page = (ROOT / "doc" / "dramatiq-taskiq.md").read_text()
    text = dict(_EXAMPLE.findall(page))[name]
    assert f"    python {name}.py\n    {' '.join(_COMMANDS[name])}\n" in page
    text = text.replace("http://127.0.0.1:8888", running.url).replace('"demo"', f'"{project}"')
    (tmp_path / f"{name}.py").write_text(text)
    environment = os.environ | frameworks.PATH
    sent = processes.run([sys.executable, f"{name}.py"], cwd=tmp_path, env=environment)
    assert sent.returncode == 0, sent.stderr
    with frameworks.worker(_COMMANDS[name], running.url, project, tmp_path):
        log = tmp_path / "worker.log"
        servers.wait_for(lambda: "Hello Ann" in log.read_text(), "the first greeting")
        servers.wait_for(lambda: "Hello Bob" in log.read_text(), "the delayed greeting")
