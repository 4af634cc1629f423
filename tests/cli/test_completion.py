# SPDX-License-Identifier: Apache-2.0
"""The script of ``zaqar-redis complete`` completes commands and options in a real bash."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

#: Loads bash-completion, or defines the needed part of it where it is missing.
_PREPARED = """
for library in /usr/share/bash-completion/bash_completion; do
    [ -r $library ] && source $library
done
declare -F _get_comp_words_by_ref >/dev/null || _get_comp_words_by_ref() {
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD - 1]}
    words=("${COMP_WORDS[@]}")
}
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
$(complete -p zaqar-redis | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "zaqar-redis"
    path.write_text(CommandLine().done("complete", "--name", "zaqar-redis"))
    return path


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("po", {"pool"}),
        ("message ", {"list", "post", "tail"}),
        ("pool dr", {"drain"}),
        ("pool drain --un", {"--undo"}),
        ("pool drain one --un", {"--undo"}),
        ("message tail orders --from", {"--from-start"}),
        ("queue purge orders-2 --y", {"--yes"}),
        ("serve --adm", {"--admin"}),
        ("queue list --pro", {"--profile", "--project"}),
        ("profile ", {"create", "delete", "list", "show", "use"}),
        ("profile create prod --us", {"--use"}),
        ("config ", {"check", "diff", "show"}),
        ("config check --con", {"--config-file"}),
        ("nothing-like-it", set()),
    ],
)
def test_commands_and_options_are_completed(script: Path, words: str, completed: set[str]) -> None:
    bash = shutil.which("bash")
    assert bash
    outcome = subprocess.run(
        [bash, "-c", _PREPARED, "bash", str(script), "zaqar-redis", *words.split(" ")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert outcome.stderr == ""
    assert set(outcome.stdout.split()) == completed
