# SPDX-License-Identifier: Apache-2.0
"""The scripts of ``zaqar-redis complete`` complete commands and options in real shells."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

#: Loads bash-completion, or defines the needed part of it where it is missing.
_IN_BASH = """
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


#: Words of a command line, and what the last of them may become.
COMPLETED: list[tuple[str, set[str]]] = [
    ("po", {"pool"}),
    ("message ta", {"tail"}),
    ("pool dr", {"drain"}),
    ("pool drain --un", {"--undo"}),
    ("pool drain one --un", {"--undo"}),
    ("message tail orders --from", {"--from-start"}),
    ("queue purge orders-2 --y", {"--yes"}),
    ("serve --adm", {"--admin"}),
    ("queue list --pro", {"--profile", "--project"}),
    ("profile ", {"create", "delete", "list", "show", "use"}),
    ("profile create prod --us", {"--use"}),
    ("config che", {"check"}),
    ("config check --con", {"--config-file"}),
    ("nothing-like-it", set()),
]


#: Defines what a completion calls, and calls it with the words.
_IN_ZSH = """
compdef() { function_of=$1 }
compadd() { shift; print -rl -- ${(M)@:#${words[CURRENT]}*} }
_files() { print -r -- FILES }
source $1
shift
words=("$@")
CURRENT=$#
$function_of
"""


def _script(folder: Path, shell: str, *words: str) -> Path:
    path = folder / shell
    path.write_text(CommandLine().done("complete", "--name", "zaqar-redis", *words))
    return path


def _run(*command: str | Path) -> set[str]:
    outcome = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    assert outcome.stderr == ""
    return set(outcome.stdout.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scripts")


@pytest.fixture(scope="module")
def bash(folder: Path) -> Path:
    return _script(folder, "bash")


@pytest.fixture(scope="module")
def zsh(folder: Path) -> Path:
    return _script(folder, "zsh", "--shell", "zsh")


@pytest.fixture(scope="module")
def fish(folder: Path) -> Path:
    return _script(folder, "fish", "--shell", "fish")


@pytest.mark.parametrize(("words", "completed"), COMPLETED)
def test_bash_completes_commands_and_options(bash: Path, words: str, completed: set[str]) -> None:
    found = _run("bash", "-c", _IN_BASH, "bash", bash, "zaqar-redis", *words.split(" "))
    assert found == completed


@pytest.mark.parametrize(("words", "completed"), COMPLETED)
def test_zsh_completes_commands_and_options(zsh: Path, words: str, completed: set[str]) -> None:
    found = _run("zsh", "-f", "-c", _IN_ZSH, "zsh", zsh, "zaqar-redis", *words.split(" "))
    assert found == completed


@pytest.mark.parametrize(("words", "completed"), COMPLETED)
def test_fish_completes_commands_and_options(fish: Path, words: str, completed: set[str]) -> None:
    line = f"zaqar-redis {words}"
    assert _run("fish", "-N", "-c", f"source {fish}; complete -C '{line}'") == completed


def test_arguments_are_completed_as_files(zsh: Path, fish: Path, folder: Path) -> None:
    words = ("zaqar-redis", "import-stock", "--from", "")
    assert _run("zsh", "-f", "-c", _IN_ZSH, "zsh", zsh, *words) == {"FILES"}
    line = f"zaqar-redis import-stock --from {folder}/z"
    assert _run("fish", "-N", "-c", f"source {fish}; complete -C '{line}'") == {f"{folder}/zsh"}
