# SPDX-License-Identifier: Apache-2.0
"""What the benchmark asks of a broker, and where its programs are."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

#: Name of the queue, tube or stream.
QUEUE = "work"
#: Where Debian has the programs of RabbitMQ; those on PATH only run as root or rabbitmq.
_RABBITMQ = "/usr/lib/rabbitmq/bin"


class QueueClient(Protocol):
    """One of the clients that work at the same time; each awaits one request at a time."""

    async def post(self) -> bool:
        """Posts a message; returns whether the server confirmed it."""

    async def claim_delete(self) -> bool:
        """Claims a message and deletes it; returns whether both succeeded."""

    async def purge(self) -> None:
        """Deletes all messages, together with the other clients."""


class Broker(Protocol):
    """A server that runs, in one process or in several."""

    @property
    def processes(self) -> Mapping[str, int]:
        """The process ids, by program."""

    def connect(
        self, count: int, *, claims: bool
    ) -> AbstractAsyncContextManager[Sequence[QueueClient]]:
        """Connects so many clients to an empty queue.  *claims*: they claim messages, too."""


def new_folder(stack: contextlib.ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-")))


def program(name: str) -> str:
    """Returns the path of a program.  Raises SystemExit when it is not installed."""
    found = shutil.which(name, path=os.pathsep.join([_RABBITMQ, os.environ.get("PATH", "")]))
    if not found:
        raise SystemExit(
            f"{name} is not on PATH; install Debian's package of that name, with apt-get "
            f"install {name}, or choose other brokers with --broker"
        )
    return found
