# SPDX-License-Identifier: Apache-2.0
"""The sources of Lua scripts: their signatures, and the parts that they share.

A script begins with what it does, and with its signature:

    --#keys queue @message move_lock
    --#args now:number repair:flag rest...

Each of these lines is replaced by one that sets local variables.  ``@message`` is a group of keys
(`keys.GROUPS`); a ``number`` is converted, a ``flag`` is whether it is 1; ``rest`` is the index
in ARGV of the first argument without a name.  ``--#include now hold`` stands for the text of
``lua/shared/now.lua`` and ``hold.lua``.  ``--#pubsub publish`` names the command that publishes to
a channel in the slot of the keys: PUBLISH, and SPUBLISH in a Redis Cluster, where PUBLISH would go
to all nodes.
A script with ``--#flags deny-oom``
adds what clients give: a store that is nearly full does not get it (`memory_guard`).  The others go
on even when Redis has no memory left, if the first command by which they write needs none.
"""

from __future__ import annotations

import re
from importlib import resources

from zaqar_redis.keyspace import commands
from zaqar_redis.keyspace.keys import GROUPS

_FOLDER = resources.files(__package__).joinpath("lua")
_DIRECTIVE = re.compile(r"^--#(\w+) (.+)\n", re.MULTILINE)
_ARGUMENT = re.compile(r"(\w+)(?::(number|flag))?")
_WORD = re.compile(r"'([A-Z]{2,})'")
_NEVER_WRITES = commands.READING | commands.OPTIONS
_FLAGS = frozenset(("deny-oom",))
_CONVERSIONS = {"number": "{0} = tonumber({0})", "flag": "{0} = {0} == '1'"}


class ScriptSource:
    """The text of a script with its lines ``--#…`` replaced, and the names that they give."""

    def __init__(self, name: str, text: str, publish: str = "PUBLISH") -> None:
        """Raises ValueError when such a line is wrong."""
        self._name = name
        self._publish = publish
        self.publishes = False
        self.keys: list[str] = []
        self.args: list[str] = []
        self.takes_rest = False
        self.flags: list[str] = []
        self.text = self._expand(text)

    @classmethod
    def load(cls, name: str, publish: str = "PUBLISH") -> ScriptSource:
        """Raises ValueError, and FileNotFoundError when there is no such script."""
        return cls(name, _FOLDER.joinpath(f"{name}.lua").read_text(), publish)

    @property
    def writes(self) -> bool:
        """Whether it may write: it has a word in quotes that is not only for reading."""
        return not _NEVER_WRITES.issuperset(_WORD.findall(self.text))

    def _expand(self, text: str) -> str:
        return _DIRECTIVE.sub(self._replacement, text)

    def _replacement(self, line: re.Match[str]) -> str:
        kind, words = line[1], line[2].split()
        if kind == "include":
            return "".join(map(self._include, words))
        if kind == "keys":
            return self._name_keys(words)
        if kind == "args":
            return self._name_arguments(words)
        if kind == "flags":
            return self._note_flags(words)
        if kind == "pubsub":
            self.publishes = True
            return f"local {words[0]} = '{self._publish}'\n"
        known = "--#keys, --#args, --#pubsub, --#flags or --#include"
        raise self._wrong(f'"--#{kind}" is unknown: write {known}')

    def _include(self, part: str) -> str:
        shared = _FOLDER.joinpath("shared", f"{part}.lua")
        if not shared.is_file():
            raise self._wrong(f"it includes {part}: add lua/shared/{part}.lua, or name another")
        return self._expand(shared.read_text())

    def _note_flags(self, words: list[str]) -> str:
        if unknown := sorted({*words} - _FLAGS):
            raise self._wrong(f"the flag {unknown[0]} is unknown: write {', '.join(_FLAGS)}")
        self.flags += words
        return ""

    def _name_keys(self, words: list[str]) -> str:
        names: list[str] = []
        for word in words:
            if word.startswith("@") and word[1:] not in GROUPS:
                raise self._wrong(f"{word} is no group of keys: add it to keys.GROUPS")
            names += GROUPS[word[1:]] if word.startswith("@") else (word,)
        return self._locals(self.keys, names, "KEYS") + "\n"

    def _name_arguments(self, words: list[str]) -> str:
        names, more = [], []
        for word in words:
            found = _ARGUMENT.fullmatch(word)
            if self.takes_rest or not (found or word == "rest..."):
                raise self._wrong(
                    f'the argument "{word}": write NAME, NAME:number or NAME:flag, and rest... last'
                )
            if found is None:
                self.takes_rest = True
                continue
            names.append(found[1])
            if found[2]:
                more.append(_CONVERSIONS[found[2]].format(found[1]))
        line = self._locals(self.args, names, "ARGV")
        if self.takes_rest:
            more.append(f"local rest = {len(self.args) + 1}")
        return " ".join([line, *more]) + "\n"

    def _locals(self, known: list[str], names: list[str], table: str) -> str:
        for name in names:
            if name in self.keys or name in self.args or names.count(name) > 1:
                raise self._wrong(f"{name} is named twice: remove one")
        known += names
        first, last = len(known) - len(names) + 1, len(known)
        return f"local {', '.join(names)} = unpack({table}, {first}, {last})" if names else ""

    def _wrong(self, why: str) -> ValueError:
        return ValueError(f"{self._name}.lua: {why}")
