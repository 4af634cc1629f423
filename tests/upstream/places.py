# SPDX-License-Identifier: Apache-2.0
"""What stock's tests expect of MongoDB's driver, lent to another one.

Nothing here belongs in a driver: these are handles that only those tests use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from unittest import mock

from tests.upstream.targets import Target

_MONGODB = "zaqar.storage.mongodb"


class _Connection:
    """Some tests drop the databases of MongoDB; ours begin with an empty store."""

    def drop_database(self, name: str) -> None:
        """Do nothing."""


def lend(target: Target) -> None:
    """Give the drivers the members that tests clean up with."""
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
def of_mongodb(target: Target) -> Iterator[None]:
    """Put the driver where tests name MongoDB's classes; to be open while they load.

    Some decorators of tests read the names then, and what a URI of MongoDB stands
    for must not change afterwards.  Names that only tests look up stay replaced.
    """
    package = import_module(_MONGODB)
    data = target.load("data")
    # mypy knows of no such name in the package; tests look it up there.
    package.DataDriver = data  # type: ignore[attr-defined]
    package.queues.QueueController = target.load("queues")
    with (
        mock.patch.object(package.driver, "DataDriver", data),
        mock.patch.object(package.messages, "MessageController", target.load("messages")),
    ):
        yield
