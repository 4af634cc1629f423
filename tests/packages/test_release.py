# SPDX-License-Identifier: Apache-2.0
"""What a release is made of: its workflows, its notes, and the style of all YAML."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conventions.files import ROOT, written

_WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
_NOTES = sorted((ROOT / "releasenotes" / "notes").iterdir())


def _run(program: str, *words: str | Path) -> None:
    """Runs a program of the environment of the tests."""
    command = [Path(sys.executable).with_name(program), *words]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.fixture(params=_WORKFLOWS, ids=lambda path: path.name)
def workflow(request: pytest.FixtureRequest) -> Any:
    return yaml.safe_load(request.param.read_text())


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_one_of_github(path: Path) -> None:
    _run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", path)


def test_jobs_have_limits_and_only_the_rights_that_they_name(workflow: Any) -> None:
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert job["permissions"], name
        # A workflow that is called has limits of its own.
        assert "uses" in job or job["timeout-minutes"] <= 90, name


def test_expressions_are_not_put_into_the_text_of_scripts(workflow: Any) -> None:
    scripts = [
        step["run"]
        for job in workflow["jobs"].values()
        for step in job.get("steps", ())
        if "run" in step
    ]
    assert scripts
    assert [script for script in scripts if "${{" in script] == []


@pytest.mark.parametrize("note", _NOTES, ids=lambda note: note.name)
def test_a_release_note_has_known_sections_of_texts(note: Path) -> None:
    known = {section for section, _ in yaml.safe_load((ROOT / "reno.yaml").read_text())["sections"]}
    sections = yaml.safe_load(note.read_text())
    assert isinstance(sections.pop("prelude", ""), str)  # reno's own: an introduction
    assert sections.keys() <= known
    assert all(isinstance(text, str) for texts in sections.values() for text in texts)


def test_reno_accepts_all_release_notes() -> None:
    _run("reno", "lint")


def test_yaml_has_one_style() -> None:
    # Templates of Helm are YAML only when they are rendered.
    files = [
        path
        for path in written()
        if path.suffix in (".yaml", ".yml") and "templates" not in path.parts
    ]
    assert len(files) > len(_NOTES)
    _run("yamllint", "--strict", *files)
