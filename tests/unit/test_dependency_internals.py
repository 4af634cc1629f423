# SPDX-License-Identifier: Apache-2.0
"""The internals of the HTTP server that `zaqar_redis.api` uses still exist.

None of them are public API.  Where a name is missing in a new release: find what replaced
it, fix the module that uses it, run tests/realtime, tests/faults and tests/api, and only
then raise the upper bound in setup.cfg.
"""

from __future__ import annotations

import ast
import configparser
import inspect
import re
import textwrap
from collections.abc import Iterable
from importlib import metadata

import gunicorn.sock
import pytest
from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker as GunicornWorker
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets import websockets_sansio_impl
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from uvicorn_worker import UvicornWorker
from websockets.http11 import Request
from websockets.server import ServerProtocol

from tests.conventions.files import ROOT
from zaqar_redis.api.server.sockets import EventQueue

WORKER, SOCKETS = "api/server/worker.py", "api/server/sockets.py"

#: Module that uses it, class that has it, and names of methods and attributes.
USED: list[tuple[str, type, str]] = [
    (WORKER, HttpToolsProtocol, "connection_made data_received config connections loop"),
    (WORKER, HttpToolsProtocol, "on_message_begin on_headers_complete on_message_complete"),
    (WORKER, HttpToolsProtocol, "cycle scope transport"),
    (WORKER, RequestResponseCycle, "response_started"),
    (WORKER, Server, "serve shutdown on_tick should_exit started server_state"),
    (WORKER, ServerState, "connections"),
    (WORKER, Config, "app"),
    (WORKER, UvicornWorker, "CONFIG_KWARGS _serve config run"),
    (WORKER, GunicornWorker, "ppid sockets wsgi"),
    (WORKER, gunicorn.sock.BaseSocket, "sock"),
    (WORKER, Arbiter, "WORKER_BOOT_ERROR"),
    (SOCKETS, WebSocketsSansIOProtocol, "connection_made handle_connect shutdown"),
    (SOCKETS, WebSocketsSansIOProtocol, "handshake_initiated handshake_complete request scope"),
    (SOCKETS, WebSocketsSansIOProtocol, "queue conn logger loop transport read_paused"),
    (SOCKETS, WebSocketsSansIOProtocol, "close_sent close_timer disconnected"),
    (SOCKETS, ServerProtocol, "send_close data_to_send logger"),
    (SOCKETS, Request, "headers path"),
]
#: Functions that are overridden or called, with their parameters.
SIGNATURES = [
    (WORKER, Server.on_tick, ["self", "counter"]),
    (WORKER, Server.shutdown, ["self", "sockets"]),
    (WORKER, Server.serve, ["self", "sockets"]),
    (SOCKETS, WebSocketsSansIOProtocol.handle_connect, ["self", "event"]),
    (SOCKETS, ServerProtocol.send_close, ["self", "code", "reason"]),
]
#: Packages with used internals, named as in setup.cfg.
BOUND = sorted({kind.__module__.partition(".")[0].replace("_", "-") for _, kind, _ in USED})


def names(kind: type) -> set[str]:
    """Returns the attributes of a class, and those that it sets on its instances."""
    found = set(dir(kind))
    for each in kind.__mro__[:-1]:
        found |= set(getattr(each, "__annotations__", {}))
        try:
            source = textwrap.dedent(inspect.getsource(each))
        except (OSError, TypeError):
            continue  # it has no Python source
        found |= _assigned(source)
    return found


def _assigned(source: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def missing(kind: type, wanted: str) -> list[str]:
    return sorted(set(wanted.split()) - names(kind))


def _changed(kind: type, user: str, what: Iterable[str]) -> str:
    package = kind.__module__.partition(".")[0].replace("_", "-")
    return (
        f"{package} {metadata.version(package)}: {kind.__qualname__} is without "
        f"{', '.join(what)}, which zaqar_redis/{user} uses; find what replaced it, fix that "
        "file, and raise the bound in setup.cfg when tests/realtime, tests/faults and tests/api "
        "pass"
    )


@pytest.mark.parametrize(("user", "kind", "wanted"), USED)
def test_used_internals_of_dependencies_exist(user: str, kind: type, wanted: str) -> None:
    gone = missing(kind, wanted)
    assert not gone, _changed(kind, user, gone)


@pytest.mark.parametrize(("user", "function", "parameters"), SIGNATURES)
def test_used_internals_of_dependencies_keep_their_signatures(
    user: str, function: object, parameters: list[str]
) -> None:
    taken = list(inspect.signature(function).parameters)  # type: ignore[arg-type]  # any callable
    assert taken == parameters, f"{function}, see zaqar_redis/{user}, takes {taken} now"


def test_websocket_event_queue_has_the_methods_uvicorn_calls() -> None:
    source = inspect.getsource(websockets_sansio_impl)
    used = set(re.findall(r"self\.queue\.(\w+)", source))
    assert used
    assert used <= set(dir(EventQueue)), "see Events in zaqar_redis/api/server/sockets.py"


@pytest.mark.parametrize("package", BOUND)
def test_dependency_with_used_internals_has_upper_version_bound(package: str) -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options"]["install_requires"].splitlines()
    [bounds] = [line for line in lines if re.match(rf"{package}\b(?!-)", line)]
    assert re.fullmatch(rf"{package}>=[\d.]+,<[\d.]+", bounds), bounds


def test_missing_internal_is_reported_with_its_user() -> None:
    assert missing(WebSocketsSansIOProtocol, "conn not_there") == ["not_there"]
    message = _changed(WebSocketsSansIOProtocol, SOCKETS, ["not_there"])
    assert "is without not_there, which zaqar_redis/api/server/sockets.py uses" in message
