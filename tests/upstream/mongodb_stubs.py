# SPDX-License-Identifier: Apache-2.0
"""Members that stock's tests expect of MongoDB's driver, added to another one.

None of them belong in a driver: only those tests use them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from unittest import mock

from tests.upstream.targets import DriverUnderTest

_MONGODB = "zaqar.storage.mongodb"


class _Connection:
    """A connection for tests that drop MongoDB's databases; ours begin with an empty store."""

    def drop_database(self, name: str) -> None:
        """Does nothing."""


def lend(target: DriverUnderTest) -> None:
    """Adds the members that tests use for clean-up to the drivers."""
    data, control = target.load("data"), target.load("control")
    if hasattr(data, "connection"):
        import_module("redis").Redis.drop_database = _Connection.drop_database
    else:
        data.connection = _Connection()
    _add(data, "message_databases", ())
    _add(control, "queues_database", "")
    _add(control, "topics_database", "")


def _add(owner: Any, name: str, value: object) -> None:
    if not hasattr(owner, name):
        setattr(owner, name, value)


@contextlib.contextmanager
def of_mongodb(target: DriverUnderTest) -> Iterator[None]:
    """Replaces MongoDB's classes by the driver; to be open while tests are imported.

    Some decorators of tests read the names then, and the meaning of MongoDB's URIs
    must not change afterwards.  Names that only tests look up stay replaced.
    """
    package = import_module(_MONGODB)
    data = target.load("data")
    # mypy does not find this name in the package; tests look it up there.
    package.DataDriver = data  # type: ignore[attr-defined]
    package.queues.QueueController = target.load("queues")
    with (
        mock.patch.object(package.driver, "DataDriver", data),
        mock.patch.object(package.messages, "MessageController", target.load("messages")),
    ):
        yield
