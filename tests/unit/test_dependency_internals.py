# SPDX-License-Identifier: Apache-2.0
"""The internals of dependencies that `zaqar_redis` uses still exist.

None of them are public API.  Where a name is missing in a new release: find what replaced
it, fix the module that uses it, run tests/realtime, tests/faults, tests/server, tests/api and
tests/keystone, and only then raise the upper bound in setup.cfg.
"""

from __future__ import annotations

import ast
import configparser
import inspect
import re
import ssl
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec

import gunicorn.sock
import hiredis
import pytest
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.workers.base import Worker as GunicornWorker
from keystonemiddleware.auth_token import AuthProtocol
from keystonemiddleware.auth_token._identity import IdentityServer
from nats.aio.client import Client as NatsClient
from nats.aio.transport import TcpTransport
from oslo_config.cfg import ConfigOpts
from oslo_config.sources._environment import EnvironmentConfigurationSource
from redis._parsers import _AsyncHiredisParser
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError
from uvicorn import Config, Server
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets import websockets_sansio_impl
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from uvicorn_worker import UvicornWorker
from websockets.http11 import Request
from websockets.server import ServerProtocol

from tests.conventions.files import ROOT
from zaqar_redis.api.server.hot_request import HotRequest
from zaqar_redis.api.server.sockets import EventQueue

WORKER, SOCKETS = "api/server/worker.py", "api/server/sockets.py"
PROTOCOL, BATCH = "api/server/protocol.py", "keyspace/batch.py"
CONNECTION = "keyspace/connection.py"
TOKENS = "auth/keystone_tokens.py"
MASTER, RETIRING = "api/server/master.py", "api/server/retiring.py"
ENVIRONMENT, LOG = "conf/environment.py", "cli/service_log.py"
NATS = "realtime/buses/nats.py"


def _package(kind: type) -> str:
    name = kind.__module__.partition(".")[0]
    return "nats-py" if name == "nats" else name.replace("oslo_", "oslo.").replace("_", "-")


#: Module that uses it, class that has it, and names of methods and attributes.
USED: list[tuple[str, type, str]] = [
    (PROTOCOL, HttpToolsProtocol, "connection_made connection_lost data_received resume_writing"),
    (PROTOCOL, HttpToolsProtocol, "on_message_begin on_url on_header on_headers_complete"),
    (PROTOCOL, HttpToolsProtocol, "on_body on_message_complete on_response_complete"),
    (PROTOCOL, HttpToolsProtocol, "handle_websocket_upgrade _should_upgrade client"),
    (PROTOCOL, HttpToolsProtocol, "shutdown _start_asgi_task"),
    (PROTOCOL, HttpToolsProtocol, "app config connections loop parser server_state transport"),
    (PROTOCOL, HttpToolsProtocol, "cycle pipeline flow scope url headers expect_100_continue"),
    (PROTOCOL, HttpToolsProtocol, "timeout_keep_alive"),
    (PROTOCOL, RequestResponseCycle, "response_started response_complete keep_alive disconnected"),
    (PROTOCOL, FlowControl, "read_paused write_paused pause_reading resume_reading"),
    (PROTOCOL, ServerState, "default_headers total_requests"),
    (WORKER, Server, "serve shutdown on_tick should_exit started server_state"),
    (WORKER, ServerState, "connections"),
    (WORKER, Config, "app load ssl"),
    (WORKER, UvicornWorker, "CONFIG_KWARGS _serve config run"),
    (WORKER, GunicornWorker, "ppid sockets wsgi"),
    (WORKER, gunicorn.sock.BaseSocket, "sock"),
    (WORKER, Arbiter, "WORKER_BOOT_ERROR"),
    (WORKER, Config, "ssl_version"),
    (WORKER, Server, "startup servers"),
    (MASTER, Arbiter, "start stop reload setup wait_for_signals spawn_worker manage_workers"),
    (MASTER, Arbiter, "reap_workers murder_workers WORKERS SIG_QUEUE num_workers app cfg log"),
    (MASTER, GunicornWorker, "tmp"),
    (RETIRING, HttpToolsProtocol, "shutdown on_response_complete _start_asgi_task pipeline"),
    (RETIRING, RequestResponseCycle, "keep_alive on_response response_complete"),
    (LOG, Logger, "setup error_log"),
    (ENVIRONMENT, EnvironmentConfigurationSource, "get_name"),
    (ENVIRONMENT, ConfigOpts, "_env_driver"),
    (SOCKETS, WebSocketsSansIOProtocol, "connection_made handle_connect shutdown"),
    (SOCKETS, WebSocketsSansIOProtocol, "handshake_initiated handshake_complete request scope"),
    (SOCKETS, WebSocketsSansIOProtocol, "queue conn logger loop transport read_paused"),
    (SOCKETS, WebSocketsSansIOProtocol, "close_sent close_timer disconnected"),
    (SOCKETS, ServerProtocol, "send_close data_to_send logger"),
    (SOCKETS, Request, "headers path"),
    (BATCH, AbstractConnection, "send_packed_command"),
    (CONNECTION, AbstractConnection, "_reader _parser"),
    (CONNECTION, _AsyncHiredisParser, "parse_error"),
    (TOKENS, AuthProtocol, "_create_identity_server validate_allowed_request www_authenticate_uri"),
    (TOKENS, IdentityServer, "verify_token"),
    (NATS, NatsClient, "_transport _process_msg"),
    (NATS, TcpTransport, "_io_writer"),
]
#: Functions that are overridden or called, with their parameters.
SIGNATURES = [
    (WORKER, Server.on_tick, ["self", "counter"]),
    (WORKER, Server.shutdown, ["self", "sockets"]),
    (WORKER, Server.startup, ["self", "sockets"]),
    (MASTER, Arbiter.wait_for_signals, ["self", "timeout"]),
    (MASTER, Arbiter.stop, ["self", "graceful"]),
    (LOG, Logger.setup, ["self", "cfg"]),
    (ENVIRONMENT, EnvironmentConfigurationSource.get_name, ["group_name", "option_name"]),
    (WORKER, Server.serve, ["self", "sockets"]),
    (PROTOCOL, HttpToolsProtocol._start_asgi_task, ["self", "cycle", "app"]),
    (PROTOCOL, HttpToolsProtocol.on_header, ["self", "name", "value"]),
    (PROTOCOL, HttpToolsProtocol.on_body, ["self", "body"]),
    (PROTOCOL, FlowControl, ["transport"]),
    (SOCKETS, WebSocketsSansIOProtocol.handle_connect, ["self", "event"]),
    (SOCKETS, ServerProtocol.send_close, ["self", "code", "reason"]),
    (TOKENS, AuthProtocol._create_identity_server, ["self"]),
    (TOKENS, AuthProtocol.validate_allowed_request, ["self", "request", "token"]),
]
#: What uvicorn uses only of requests that take the ASGI path.
_OF_ASGI_REQUESTS = {"body", "more_body", "run_asgi"}
#: Packages with used internals, named as in setup.cfg.
BOUND = sorted({_package(kind) for _, kind, _ in USED})


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
    package = _package(kind)
    return (
        f"{package} {metadata.version(package)}: {kind.__qualname__} is without "
        f"{', '.join(what)}, which zaqar_redis/{user} uses; find what replaced it, fix that "
        "file, and raise the bound in setup.cfg when tests/realtime, tests/faults, tests/server "
        "and tests/api pass"
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


def test_objects_of_tls_are_made_of_what_the_overridden_method_takes() -> None:
    # The types of the standard library leave it out.
    taken = list(inspect.signature(ssl.SSLObject._create).parameters)  # type: ignore[attr-defined]
    assert taken[:2] == ["incoming", "outgoing"], "see zaqar_redis/api/server/tls.py"


def test_websocket_event_queue_has_the_methods_uvicorn_calls() -> None:
    source = inspect.getsource(websockets_sansio_impl)
    used = set(re.findall(r"self\.queue\.(\w+)", source))
    assert used
    assert used <= set(dir(EventQueue)), "see Events in zaqar_redis/api/server/sockets.py"


def test_hot_request_has_what_uvicorn_uses_of_a_cycle() -> None:
    source = inspect.getsource(HttpToolsProtocol)
    used = set(re.findall(r"\bcycle\.(\w+)", source)) - _OF_ASGI_REQUESTS
    assert used
    assert used <= names(HotRequest), f"see HotRequest in zaqar_redis/{PROTOCOL}"


def test_uvicorn_keeps_pipelined_requests_as_the_protocol_does() -> None:
    source = inspect.getsource(httptools_impl)
    assert re.findall(r"self\.pipeline\.\w+\(.*\)", source) == [
        "self.pipeline.appendleft((self.cycle, app))",
        "self.pipeline.pop()",
    ], f"see on_headers_complete and on_response_complete in zaqar_redis/{PROTOCOL}"


def test_uvicorn_tells_of_answers_by_the_method_that_is_overridden() -> None:
    source = inspect.getsource(HttpToolsProtocol.on_headers_complete)
    assert "on_response=self.on_response_complete" in source
    assert "self._start_asgi_task(self.cycle, app)" in source


def test_hiredis_reads_replies_and_errors_of_redis_py() -> None:
    missing_reply = object()
    reader = hiredis.Reader(replyError=_AsyncHiredisParser.parse_error, notEnoughData=missing_reply)
    reader.feed(b"+OK\r\n-ERR refused\r\n$-1\r\n$3\r\nab")
    assert reader.gets() == b"OK"
    assert isinstance(reader.gets(), ResponseError)
    assert reader.gets() is None
    assert reader.gets() is missing_reply


@pytest.mark.parametrize("package", BOUND)
def test_dependency_with_used_internals_has_upper_version_bound(package: str) -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options"]["install_requires"].splitlines()
    for extra in ("keystone", "nats"):
        lines += config["options.extras_require"][extra].splitlines()
    [bounds] = [line for line in lines if re.match(rf"{package}\b(?!-)", line)]
    assert re.fullmatch(rf"{package}(\[\w+\])?>=[\d.]+,<[\d.]+", bounds), bounds


def test_missing_internal_is_reported_with_its_user() -> None:
    assert missing(WebSocketsSansIOProtocol, "conn not_there") == ["not_there"]
    message = _changed(WebSocketsSansIOProtocol, SOCKETS, ["not_there"])
    assert "is without not_there, which zaqar_redis/api/server/sockets.py uses" in message


def test_httpx_works_without_its_own_command_line() -> None:
    """`cli.api` imports it so, because that needs half of the time."""
    code = "import sys; sys.modules['httpx._main'] = None; import httpx; httpx.Client().close()"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
    # What it leaves out is still there, under this name.
    assert find_spec("httpx._main") is not None
