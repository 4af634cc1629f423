# SPDX-License-Identifier: Apache-2.0
"""Completion in zsh and fish: cliff's ``complete --shell`` finds these beside its own for bash."""

from __future__ import annotations

from collections.abc import Iterator

from cliff.complete import CompleteShellBase


class _Completion(CompleteShellBase):
    """Base of the scripts: both go along the words of commands, as far as there are such."""

    def get_header(self) -> str:
        return ""

    def get_trailer(self) -> str:
        return ""

    def candidates(self, commands: str, data: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Yields the words of commands, and what may follow them: more words, or options."""
        yield "", commands
        for path, following in data:
            yield path.replace("_", " "), following


class CompleteZsh(_Completion):
    def write(self, cmdo: str, data: list[tuple[str, str]]) -> None:
        rows = "".join(
            f"    '{path}' '{following}'\n" for path, following in self.candidates(cmdo, data)
        )
        self.output.write(
            f"#compdef {self.name}\n"
            f"_{self.escaped_name}() {{\n"
            "  local -A candidates=(\n"
            f"{rows}"
            "  )\n"
            "  local command='' word\n"
            '  for word in "${(@)words[2,CURRENT-1]}"; do\n'
            "    [[ $word != -* && -n ${candidates[${command:+$command }$word]} ]] || break\n"
            "    command=${command:+$command }$word\n"
            "  done\n"
            "  local following=${candidates[$command]}\n"
            "  if [[ $following == -* && ${words[CURRENT]} != -* ]]; then\n"
            "    _files\n"
            "  else\n"
            "    compadd -- ${=following}\n"
            "  fi\n"
            "}\n"
            f"compdef _{self.escaped_name} {self.name}\n"
        )


class CompleteFish(_Completion):
    def write(self, cmdo: str, data: list[tuple[str, str]]) -> None:
        rows = "".join(
            f"        case '{path}'\n            string split ' ' -- '{following}'\n"
            for path, following in self.candidates(cmdo, data)
        )
        function = f"__{self.escaped_name}"
        self.output.write(
            f"function {function}_following\n"
            '    switch "$argv"\n'
            f"{rows}"
            "    end\n"
            "end\n"
            f"function {function}_complete\n"
            "    set -l command\n"
            "    for word in (commandline -opc)[2..-1]\n"
            "        string match -q -- '-*' $word; and break\n"
            f'        test -n "$({function}_following $command $word)"; or break\n'
            "        set -a command $word\n"
            "    end\n"
            f"    set -l following ({function}_following $command)\n"
            "    if string match -q -- '-*' \"$following\"\n"
            "        and not string match -q -- '-*' (commandline -ct)\n"
            "        __fish_complete_path (commandline -ct)\n"
            "    else\n"
            "        printf '%s\\n' $following\n"
            "    end\n"
            "end\n"
            f"complete -c {self.name} -f -a '({function}_complete)'\n"
        )
