# SPDX-License-Identifier: Apache-2.0
"""Checks of configuration files: unknown names; and of values, wherever they come from."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from oslo_config import cfg

from zaqar_redis.conf import options as derived
from zaqar_redis.conf.environment import DEFAULT, variable

#: Prefix of the option groups of namespaces of channels.
NAMESPACE = "channels:"

#: Options by group.
Groups: TypeAlias = Mapping[str, Sequence[cfg.Opt]]
#: Values by option, by group.
_Sections: TypeAlias = dict[str, dict[str, list[str]]]


def problems(conf: cfg.ConfigOpts, known: Groups) -> list[str]:
    """Returns unknown names and invalid values, with group, option and similar names."""
    read = {path: _sections(path) for path in _files(conf)}
    unknown = [line for path, sections in read.items() for line in _unknown(path, sections, known)]
    return unknown + list(_bad_values(conf, known, read))


def _files(conf: cfg.ConfigOpts) -> list[str]:
    found = list(conf.config_file)
    for folder in conf.config_dir:
        found += sorted(map(str, Path(folder).glob("*.conf")))
    return found


def _sections(path: str) -> _Sections:
    found: _Sections = {}
    cfg.ConfigParser(path, found).parse()
    return found


def names_of(group: str, option: cfg.Opt) -> list[tuple[str, str]]:
    """Returns group and name of an option, and those that it had before."""
    former = [(old.group or group, old.name or option.dest) for old in option.deprecated_opts]
    return [(group, option.dest), *former]


def _normalized(group: str) -> str:
    """Returns the name as oslo.config compares groups: only DEFAULT is case-sensitive."""
    return group if group == DEFAULT else group.lower()


def _unknown(path: str, sections: _Sections, known: Groups) -> Iterator[str]:
    options = {_normalized(of): {one.dest for one in each} for of, each in known.items()}
    former = {
        (_normalized(group), name)
        for of, each in known.items()
        for one in each
        for group, name in names_of(of, one)
    }
    for group, given in sections.items():
        names = options.get(_normalized(group))
        if names is None:
            yield f"[{group}] in {path}: {_no_group(group, known)}"
            continue
        for option in sorted(given.keys() - names):
            if (_normalized(group), option) in former:
                continue
            meant = _suggestion(option, names, options)
            yield f"[{group}] {option}: there is no such option ({path}){meant}"


def _no_group(group: str, known: Groups) -> str:
    if group.lower().startswith(NAMESPACE):
        return "its namespace is not in the option namespaces of [channels]"
    by_plain = {name.lower(): name for name in known}
    near = difflib.get_close_matches(group.lower(), by_plain, 1)
    return "there is no such group" + (f"; did you mean [{by_plain[near[0]]}]?" if near else "")


def _suggestion(option: str, names: set[str], options: Mapping[str, set[str]]) -> str:
    """Returns a similar option of the same group, or the same option of another group."""
    if near := difflib.get_close_matches(option, sorted(names), 1):
        return f'; did you mean "{near[0]}"?'
    others = [group for group, found in options.items() if option in found]
    return f"; there is one in [{others[0]}]" if others else ""


def _bad_values(
    conf: cfg.ConfigOpts, known: Groups, read: Mapping[str, _Sections]
) -> Iterator[str]:
    for group, options in known.items():
        for option in options:
            try:
                getattr(conf if group == DEFAULT else conf[group], option.dest)
            except (cfg.Error, ValueError) as error:
                given, where = _given(names_of(group, option), read)
                yield f"[{group}] {option.dest}: {_reason(error, option, given)}{where}"


def _reason(error: Exception, option: cfg.Opt, given: str) -> str:
    # oslo.config's own text is for developers.
    is_value = isinstance(error, ValueError) or isinstance(error.__context__, ValueError)
    allowed = derived.allowed(option.type) if is_value else ""
    if not allowed:
        return str(error.__context__ if is_value and error.__context__ else error)
    what = "its value" if option.secret else f'"{given}"'
    return f"{what} is not {allowed}"


def _given(names: Sequence[tuple[str, str]], read: Mapping[str, _Sections]) -> tuple[str, str]:
    """Returns the value of an option as it is given, and in brackets where: the variable, or else
    the last file with it.

    *names*: of the option, and those that it had before.
    """
    for group, option in names:
        if (name := variable(group, option)) in os.environ:
            return os.environ[name], f" ({name})"
    for path, sections in reversed(list(read.items())):
        for group, option in names:
            for found, given in sections.items():
                if _normalized(found) == _normalized(group) and option in given:
                    return given[option][-1], f" ({path})"
    return "", ""
