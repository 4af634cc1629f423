# SPDX-License-Identifier: Apache-2.0
"""The commands in the README and the tutorial do what the text says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from tests.conventions.files import ROOT
from tests.support import servers

#: The service and the project that the documents use.
_ADDRESS, _PROJECT = "http://127.0.0.1:8888", "X-Project-ID: demo"


def blocks(document: str, first: str, last: str) -> list[str]:
    """Returns the commands in sections of a document, from one heading to another."""
    text = (ROOT / document).read_text()
    text = text[text.index(f"## {first}") : text.index(f"## {last}") if last else None]
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    return [block for block in found if not block.lstrip().startswith("{")]  # those are responses


def typed(commands: list[str], service: servers.RunningService, project: str) -> None:
    script = "\n".join(["set -eu", *commands])
    script = script.replace(_ADDRESS, service.url).replace(_PROJECT, f"X-Project-ID: {project}")
    assert service.url in script
    assert project in script
    subprocess.run(["bash", "-c", script], check=True, timeout=60)


def run(
    code: str, service: servers.RunningService, project: str, theirs: str = "demo"
) -> list[str]:
    """Runs an indented block of Python, whose project is *theirs*; returns what it prints."""
    code = textwrap.dedent(code)
    code = code.replace(_ADDRESS, service.url).replace(f'"{theirs}"', f'"{project}"')
    assert project in code
    command = [sys.executable, "-W", "ignore", "-c", code]
    path = os.pathsep.join([str(ROOT / "client"), *filter(None, [os.environ.get("PYTHONPATH")])])
    outcome = subprocess.run(
        command,
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    return outcome.stdout.splitlines()


def test_the_readme_claims_one_message_and_deletes_it(
    two_workers: servers.RunningService, project: str, zaqar: Any
) -> None:
    python, shell = blocks("README.md", "Use it", "Install it")
    assert run(python, two_workers, project) == ["{'order': 1}"]
    assert zaqar.queue("orders").stats["messages"]["total"] == 1
    typed([shell], two_workers, project)
    assert zaqar.queue("orders").stats["messages"]["total"] == 2


@pytest.mark.parametrize(
    ("first", "last", "printed"),
    [
        (
            *("From SQS", "From RabbitMQ"),
            ["{'order': 1} claimed 1 times", "ann reserve beside bob reserve", "pay"],
        ),
        ("From RabbitMQ", "From BullMQ", []),
        (
            *("From BullMQ", ""),
            [
                *("cover", "1 delayed", "duplicates: None", "duplicates: [0]", "next at 30:00Z"),
                "['big', 'small', 'big']",
            ],
        ),
    ],
)
def test_who_comes_from_another_queue_finds_its_words_here(
    two_workers: servers.RunningService, project: str, first: str, last: str, printed: list[str]
) -> None:
    document = "doc/from-other-queues.md"
    setting, *_ = blocks(document, "The examples", "From SQS")
    code = "\n".join(map(textwrap.dedent, [setting, *blocks(document, first, last)]))
    for _ in range(2):
        lines = run(code, two_workers, project, "newcomer")
        hours = re.compile(r"(?<=next at )\d{4}-\d\d-\d\dT\d\d:")
        assert [hours.sub("", line) for line in lines] == printed


def test_the_tutorial_deletes_all_claimed_messages(
    two_workers: servers.RunningService, project: str, zaqar: Any
) -> None:
    commands = blocks("doc/tutorial.md", "2. Say who you are", "6. Wait instead")
    typed(commands, two_workers, project)
    left = zaqar.queue("orders").stats["messages"]
    assert (left["total"], left["claimed"]) == (2, 0)


def test_the_tutorial_creates_queues_that_python_zaqarclient_lists(
    two_workers: servers.RunningService, project: str, zaqar: Any
) -> None:
    typed(blocks("doc/tutorial.md", "2. Say", "8. From Python"), two_workers, project)
    listed, _ = zaqar.queues()
    assert [queue.name for queue in listed] == ["jobs", "orders"]
    dead = zaqar.queue("jobs").metadata()["_dead_letter_queue"]
    assert zaqar.queue(dead, auto_create=False).name == dead


def test_the_tutorial_takes_messages_in_python(
    two_workers: servers.RunningService, project: str, zaqar: Any
) -> None:
    code = "\n".join(blocks("doc/tutorial.md", "8. From Python", "9. From the command line"))
    code = re.sub("^ +pip install .*", "", code, flags=re.MULTILINE)
    assert run(code, two_workers, project) == ["{'order': 5}", "{'order': 6}"]
    assert zaqar.queue("orders").stats["messages"]["total"] == 0
