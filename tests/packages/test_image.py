# SPDX-License-Identifier: Apache-2.0
"""The image's recipe, without Docker: what it runs and promises.

What is copied into it is in test_distributions.py.
"""

from __future__ import annotations

import json
import re
from importlib import metadata

from tests.conventions.files import ROOT
from zaqar_redis.cli.main import ZaqarRedisShell
from zaqar_redis.cli.serve import Serve

#: Instructions of the Dockerfile, with their words: lines that end in \ are joined.
_INSTRUCTIONS = [
    match.groups()
    for match in re.finditer(
        r"^([A-Z]+) (.*)$",
        re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text()),
        re.MULTILINE,
    )
]


def _words(name: str) -> str:
    """Returns what the last instruction of a name says."""
    return [words for instruction, words in _INSTRUCTIONS if instruction == name][-1]


def test_a_container_is_not_root_and_needs_no_shell() -> None:
    user, group = _words("USER").split(":")
    assert int(user) > 0
    assert int(group) > 0
    entry_point = json.loads(_words("ENTRYPOINT"))
    scripts = metadata.entry_points(group="console_scripts", name=entry_point[0])
    assert [script.value for script in scripts] == ["zaqar_redis.cli.main:main"]
    assert _words("STOPSIGNAL") == "SIGTERM"


def test_the_command_of_a_container_is_one_that_serves_on_its_exposed_port() -> None:
    name, *words = json.loads(_words("CMD"))
    assert name == "serve"
    parsed = Serve(ZaqarRedisShell(), None).get_parser("serve").parse_args(words)
    assert parsed.bind == f"0.0.0.0:{_words('EXPOSE')}"


def test_the_health_check_asks_the_port_that_is_served() -> None:
    program, option, code = json.loads(_words("HEALTHCHECK").partition("CMD ")[2])
    assert (program, option) == ("python3", "-c")
    compile(code, "HEALTHCHECK", "exec")
    assert f"'http://127.0.0.1:{_words('EXPOSE')}/healthcheck/live'" in code
