# SPDX-License-Identifier: Apache-2.0
"""Commands of the service, forked from a process that has imported them.

    python -m tests.support.fork_server DESCRIPTOR zaqar_redis.cli.main

A start of the service takes more than a second of a processor, most of it for imports, and the
tests start some hundred services.  So on Linux each process of pytest imports them once, in a
process beside it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import IO, Any

_ROOT = Path(__file__).resolve().parents[2]
MODULE = "zaqar_redis.cli.main"
#: What a service imports, then and later.
_IMPORTED = (
    *(MODULE, "zaqar_redis.cli.serve", "zaqar_redis.storage.redis", "oslo_policy.policy"),
    *("msgpack", "uvicorn.lifespan.on", "uvicorn.loops.uvloop"),
)
#: What begins so is read when a command runs, not when it is imported.
_READ_LATE = ("ZAQAR_REDIS_", "PYTEST_")
#: Starts fresh processes, each of which measures itself.
_COVERAGE = "COVERAGE_"
#: more than the words and the environment of a command
_MAX_BYTES = 131_072
#: Seconds for the imports, on a machine that may stand still.
_TIMEOUT = 60.0
#: of prctl(2)
_PR_SET_CHILD_SUBREAPER = 36


class ForkServer:
    """The process that forks, seen from that of the tests."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._connection, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                # Processes of a service are known by the module in their command lines.
                [sys.executable, "-m", __name__, str(theirs.fileno()), MODULE],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd=_ROOT,
            )
        self._is_ready = self._receive(_TIMEOUT) == b"ready"

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Returns whether modules imported with *environment* would be the same."""
        different = environment.items() ^ self._environment.items()
        return self._is_ready and all(name.startswith(_READ_LATE) for name, _ in different)

    def fork(self, words: Sequence[str], output: int, environment: Mapping[str, str]) -> int | None:
        """Starts a command as a child of this process; returns its pid, None: it cannot."""
        request = json.dumps({"words": words, "environment": dict(environment)})
        # Only meanwhile: the workers of services that are killed belong to nobody here.
        _adopt_orphans(True)
        try:
            socket.send_fds(self._connection, [request.encode()], [output])
            # As long as it lives: what it forks later would be a second process, known to nobody.
            answer = self._receive(None)
        except OSError:
            answer = b""
        except BaseException:  # of pytest's time limit: a late answer would be the next one
            self.close()
            raise
        finally:
            _adopt_orphans(False)
        return int(answer) if answer else None

    def close(self) -> None:
        """Ends it; what it has started goes on."""
        self._connection.close()
        self.process.kill()
        self.process.wait()

    def _receive(self, seconds: float | None) -> bytes:
        self._connection.settimeout(seconds)
        with contextlib.suppress(OSError):
            return self._connection.recv(_MAX_BYTES)
        return b""


class ForkedCommand(subprocess.Popen[bytes]):
    """``zaqar-redis WORDS`` in a session of its own, forked where that is possible."""

    def __init__(
        self, words: Sequence[str], output: IO[bytes], environment: Mapping[str, str]
    ) -> None:
        self._fork = partial(_fork, words, output.fileno(), environment)
        super().__init__(
            [sys.executable, "-m", MODULE, *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )

    def _execute_child(self, *given: Any) -> None:
        pid = self._fork()
        if pid is None:
            super()._execute_child(*given)  # type: ignore[misc]  # an internal of subprocess
        else:
            self.pid = pid
            self._child_created = True


_server: ForkServer | None = None
_lock = Lock()


def _fork(words: Sequence[str], output: int, environment: Mapping[str, str]) -> int | None:
    global _server
    # The modules of a package elsewhere are not those that were imported.
    if sys.platform != "linux" or Path.cwd() != _ROOT:
        return None
    if any(name.startswith(_COVERAGE) for name in environment):
        return None
    if "PYTEST_CURRENT_TEST" not in os.environ:  # a benchmark measures what users start
        return None
    with _lock:
        _server = _server or ForkServer()
        if _server.suits(environment):
            pid = _server.fork(words, output, environment)
            if pid is not None:
                return pid
        # It has ended, or was started while a test had another environment: the next one is right.
        close()
        return None


@atexit.register
def close() -> None:
    """Ends the process that forks, if there is one."""
    global _server
    if _server is not None:
        _server.close()
        _server = None


def _adopt_orphans(adopt: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


def _serve(connection: socket.socket) -> bool:
    """Forks until nobody asks any more; returns whether this is a process that was forked."""
    connection.send(b"ready")
    while True:
        data, outputs, _, _ = socket.recv_fds(connection, _MAX_BYTES, 1)
        if not data:
            return False
        if (pid := _fork_orphan()) == 0:
            connection.close()
            _become(outputs[0], **json.loads(data))
            return True
        os.close(outputs[0])
        connection.send(b"%d" % pid)


def _fork_orphan() -> int:
    """Forks a process that has lost its parent; returns its pid, 0: this is it."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            if (pid := os.fork()) == 0:
                os.close(reading)
                os.close(writing)
                return 0
            os.write(writing, b"%d" % pid)
        except OSError:  # no process or memory is left
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        os.waitpid(between, 0)
        return int(answer.read())


def _become(output: int, words: list[str], environment: dict[str, str]) -> None:
    os.setsid()
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = words


def _main() -> int:
    connection = socket.socket(fileno=int(sys.argv[1]))
    # As -m has it: cliff takes its name from there while it is imported.
    sys.argv[0] = str(getattr(find_spec(MODULE), "origin", MODULE))
    for name in _IMPORTED:
        importlib.import_module(name)
    # A collection would write to the pages of all objects, which the processes share.
    gc.collect()
    gc.freeze()
    return int(importlib.import_module(MODULE).main()) if _serve(connection) else 0


if __name__ == "__main__":
    sys.exit(_main())
