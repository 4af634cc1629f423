# SPDX-License-Identifier: Apache-2.0
"""The exit codes that doc/operating.md promises.

Those of doctor are in `test_doctor`, 130 and 141 in `test_interrupt`.
"""

from __future__ import annotations

import re

import pytest

from tests.conventions.files import ROOT
from tests.support.command_line import CommandLine
from zaqar_redis.cli import base, doctor, main


def test_all_exit_codes_are_documented() -> None:
    behind = (ROOT / "doc/operating.md").read_text().partition("## Exit codes")[2]
    section = behind.partition("\n## ")[0]
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.M)}
    ends = {main._INTERRUPTED, main._BROKEN_PIPE}
    assert documented == {0, 1, 2, *doctor._CODES.values(), base.INCOMPLETE, *ends}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("queue list", 0),
        ("message show q 3f0c8d53-5a0f-4b0e-0000-000000000007", 1),
        ("claim renew q 51db6f78c50811e79e0f0242ac110002", 1),
        ("queue update q", 1),
        ("message move q other 3f0c8d53-5a0f-4b0e-0000-000000000007", 1),
        ("queue list --unknown", 2),
        ("--url http://127.0.0.1:1 queue list", 2),
        ("queue lost", 2),
        ("message peek q --state lost", 2),
        ("message peek", 2),
        ("queue redrive a/b", 2),
    ],
)
def test_commands_exit_as_documented(project_shell: CommandLine, words: str, code: int) -> None:
    outcome = project_shell.run(*words.split())
    assert outcome.returncode == code
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize(
    "option", ["--url http://user:secret@127.0.0.1:1", "--url=http://a:secret@b"]
)
def test_options_before_the_command_are_told_where_they_belong(
    project_shell: CommandLine, option: str
) -> None:
    told = project_shell.run(*option.split(), "queue", "list").stderr
    assert "--url goes behind the command: zaqar-redis queue list --url" in told
    assert "secret" not in told
