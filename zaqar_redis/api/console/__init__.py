# SPDX-License-Identifier: Apache-2.0
"""``/console/``: a web page for operators, which uses the public endpoints.

The page is files in this folder; charts are drawn by plotly.js, out of the Python package
plotly, if that is installed.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import falcon.asgi
import msgspec
from msgspec import Struct

from zaqar_redis import rules
from zaqar_redis.api.channels.server import ApiKeyAuth
from zaqar_redis.auth import tickets
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.realtime.session.namespaces import Namespaces

#: Bytes of a request: the name of a channel.
_BODY_MAX = 4096
_MEDIA_TYPES = {
    ".html": falcon.MEDIA_HTML,
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css",
}
#: Nothing from other origins and no inline scripts.  The one inline style that is allowed is an
#: empty one (its digest), to which plotly adds rules.
_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; "
    "style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_CHARTS = "plotly.min.js"


class ConsoleSettings(Struct, frozen=True):
    #: signs tickets; empty: nobody can sign in
    secret: bytes = b""
    #: whether a key is required
    guarded: bool = True


class ConsoleInfo(Struct):
    """The settings that the page needs before anybody has signed in."""

    #: needed, free (no key is required) or unset (no key is configured)
    key: str
    project: str
    charts: bool


class _TicketRequest(Struct):
    channel: str


class StaticFile:
    """A file of the page, read at its first request."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.media_type = _MEDIA_TYPES[path.suffix]

    @cached_property
    def content(self) -> bytes:
        return self._path.read_bytes()

    @cached_property
    def etag(self) -> str:
        return hashlib.blake2b(self.content, digest_size=16).hexdigest()


def _files() -> dict[str, StaticFile]:
    root = Path(__file__).parent
    found = {path.name: StaticFile(path) for path in root.iterdir() if path.suffix in _MEDIA_TYPES}
    package = importlib.util.find_spec("plotly")  # found, not imported: that takes long
    for folder in (package and package.submodule_search_locations) or ():
        charts = Path(folder) / "package_data" / _CHARTS
        if charts.is_file():
            found[_CHARTS] = StaticFile(charts)
    return found


class ConsolePage:
    def __init__(self, files: dict[str, StaticFile]) -> None:
        self._files = files

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str = "index.html"
    ) -> None:
        file = self._files.get(name)
        if file is None:
            raise falcon.HTTPNotFound(description=f"the console has no file {name}")
        # The charts are megabytes: a thread reads them, and other requests go on.
        etag = await asyncio.to_thread(lambda: file.etag)
        resp.etag = etag
        resp.set_header("Cache-Control", "no-cache")  # cached, but validated at each use
        resp.set_header("Content-Security-Policy", _POLICY)
        resp.set_header("X-Content-Type-Options", "nosniff")
        resp.set_header("Referrer-Policy", "no-referrer")
        resp.content_type = file.media_type
        if any(etag == known or known == "*" for known in req.if_none_match or ()):
            resp.status = 304
        else:
            resp.data = file.content


class ConsoleRedirect:
    """``/console`` without the slash that relative names in the page need."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.status = 308
        resp.set_header("Location", "/console/")


class ConsoleInfoResource:
    def __init__(self, about: ConsoleInfo) -> None:
        self._about = msgspec.json.encode(about)

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.set_header("Cache-Control", "no-store")
        resp.data = self._about


class TicketResource:
    """``POST /console/token``: a token for the live tail of one channel."""

    def __init__(
        self, guard: ApiKeyAuth, secret: bytes, namespaces: Namespaces, project: str
    ) -> None:
        self._guard = guard
        self._secret = secret
        self._namespaces = namespaces
        self._project = project

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        self._guard.check(req)
        body = await req.stream.read(_BODY_MAX)
        try:
            channel = msgspec.json.decode(body, type=_TicketRequest).channel
            self._namespaces.options(channel)
        except msgspec.DecodeError as error:
            raise falcon.HTTPBadRequest(description=str(error)) from error
        except CommandRejected as refused:
            raise falcon.HTTPBadRequest(description=refused.error.message) from refused
        project = rules.project_id(req.get_header("X-Project-ID") or self._project)
        token = tickets.issue(self._secret, project, channel, time.time())
        resp.set_header("Cache-Control", "no-store")
        resp.data = msgspec.json.encode({"token": token})


def install(
    app: falcon.asgi.App[Any, Any],
    settings: ConsoleSettings,
    guard: ApiKeyAuth,
    namespaces: Namespaces,
    project: str,
) -> None:
    """Adds the routes of the console."""
    files = _files()
    key = ("needed" if settings.guarded else "free") if settings.secret else "unset"
    page = ConsolePage(files)
    app.add_route("/console", ConsoleRedirect())
    app.add_route("/console/", page)
    app.add_route("/console/{name}", page)
    app.add_route(
        "/console/about", ConsoleInfoResource(ConsoleInfo(key, project, _CHARTS in files))
    )
    app.add_route("/console/token", TicketResource(guard, settings.secret, namespaces, project))
