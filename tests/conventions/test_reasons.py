# SPDX-License-Identifier: Apache-2.0
"""Errors are reported completely: log lines give a reason, and errors name their store."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator

import pytest

from tests.conventions.files import modules
from zaqar_redis import errors

#: Errors that must name their store.
_OF_STORES = {"StoreUnavailable", "StoreTimeout", "Overloaded", "StoresAway"}
_EXCEPTIONS = {"Exception", "BaseException"}


def _named(function: ast.AST) -> set[str]:
    """Returns the names of exceptions in a function or module."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.arg) and _is_error(node):
            found.add(node.arg)
    return found


def _is_error(argument: ast.arg) -> bool:
    return argument.annotation is not None and ast.unparse(argument.annotation) in _EXCEPTIONS


def bare(source: str) -> Iterator[str]:
    """Yields log calls with an exception as an argument: its text may be empty."""
    tree = ast.parse(source)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    for function in (node for node in ast.walk(tree) if isinstance(node, kinds)):
        names = _named(function)
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("LOG."):
                continue
            for argument in node.args:
                plain = re.sub(r"^(?:str|repr)\((\w+)\)$", r"\1", ast.unparse(argument))
                if plain in names:
                    yield ast.unparse(node)


def nameless(source: str) -> Iterator[str]:
    """Yields raised errors of a store that do not name it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc
            kind = raised.func if isinstance(raised, ast.Call) else raised
            given = isinstance(raised, ast.Call) and (raised.args or raised.keywords)
            if ast.unparse(kind).rpartition(".")[2] in _OF_STORES and not given:
                yield ast.unparse(node)


def test_log_lines_use_errors_reason_for_exceptions() -> None:
    found = [
        f"{name}: {call}; log errors.reason(…) instead"
        for name, source in modules()
        if "LOG." in (text := source.read_text())  # parsing all takes seconds
        for call in bare(text)
    ]
    assert found == []


def test_errors_of_a_store_name_it() -> None:
    found = [
        f"{name}: {line}"
        for name, source in modules()
        if any(error in (text := source.read_text()) for error in _OF_STORES)
        for line in nameless(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("except ValueError as e:\n        LOG.warning('x: %s', e)", 1),
        ("except ValueError as e:\n        LOG.warning('x: %s', str(e))", 1),
        ("except ValueError as e:\n        LOG.warning('x: %s', errors.reason(e))", 0),
        ("except ValueError as e:\n        LOG.warning('x', exc_info=e)", 0),
        ("except ValueError as e:\n        raise errors.StoreTimeout from e", 1),
        ("except ValueError as e:\n        raise errors.StoreTimeout() from e", 1),
        ("except ValueError as e:\n        raise errors.StoreTimeout(name) from e", 0),
    ],
)
def test_rules_for_error_reasons_find_violations(source: str, found: int) -> None:
    text = f"def f():\n    try:\n        g()\n    {source}"
    assert len([*bare(text), *nameless(text)]) == found


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "no answer in time"),
        (asyncio.CancelledError(), "CancelledError"),
        (ValueError("no\n  number "), "no number"),
        (errors.StoreTimeout("one"), errors.StoreTimeout("one").text),
    ],
)
def test_a_reason_is_one_line_and_never_empty(error: BaseException, reason: str) -> None:
    assert errors.reason(error) == reason
