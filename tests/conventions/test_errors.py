# SPDX-License-Identifier: Apache-2.0
"""Every error has a text, a distinct code, and a fitting status."""

from __future__ import annotations

import functools
import importlib
import string
from collections import Counter

from tests.conventions.files import modules
from zaqar_redis import errors


def _all(kind: type[errors.Problem]) -> list[type[errors.Problem]]:
    return [kind, *(deeper for each in kind.__subclasses__() for deeper in _all(each))]


@functools.cache  # not when tests are collected: each process does that
def _problems() -> list[type[errors.Problem]]:
    # A subclass is only known once its module has been imported.
    for name, _ in modules():
        if not name.startswith(
            "zaqar_redis.zaqar_plugin"
        ):  # the plugin raises stock Zaqar's own errors
            importlib.import_module(name)
    ours = (kind for kind in _all(errors.Problem) if kind.__module__.startswith("zaqar_redis"))
    return list(dict.fromkeys(ours))


def test_codes_are_distinct() -> None:
    codes = Counter(kind.code for kind in _problems())
    assert [code for code, number in codes.items() if number > 1] == []
    assert [kind for kind in _problems() if "code" not in vars(kind)] == []


def _is_filled_in(kind: type[errors.Problem]) -> bool:
    text = vars(kind)["message"]
    fields = {name: "something" for _, name, _, _ in string.Formatter().parse(text) if name}
    problem = kind(**fields)
    is_clean = text != "" and text == text.strip()
    return is_clean and "{" not in problem.text and str(problem) == problem.text


def test_every_field_of_the_messages_is_filled_in() -> None:
    assert [kind for kind in _problems() if not _is_filled_in(kind)] == []


def test_only_what_may_pass_has_retry_after() -> None:
    assert [kind for kind in _problems() if not (400 <= kind.status < 600 and kind.title)] == []
    passing, by_owner = (
        (429, 503, 507),
        (errors.QuotaExceeded, errors.QueueFull, errors.QueuePaused),
    )
    may_pass = [kind for kind in _problems() if kind.status in passing or kind in by_owner]
    assert [kind for kind in _problems() if kind.retry is not None] == may_pass


def test_bad_configuration_names_the_problem() -> None:
    assert errors.BadConfiguration.__doc__
    assert not issubclass(errors.BadConfiguration, errors.Problem)
