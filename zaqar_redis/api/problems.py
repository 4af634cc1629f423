# SPDX-License-Identifier: Apache-2.0
"""Error handlers: from an exception to an HTTP answer ``{"title", "description"}``."""

from __future__ import annotations

import logging
from typing import Any

import falcon
import falcon.asgi
import msgspec

from zaqar_redis import errors

LOG = logging.getLogger(__name__)


def install(app: falcon.asgi.App[Any, Any]) -> None:
    # Falcon uses the last handler that fits.
    app.add_error_handler(Exception, _unexpected)
    app.add_error_handler(falcon.HTTPError, _framework)
    app.add_error_handler(falcon.HTTPStatus, _status)
    app.add_error_handler(errors.Problem, _problem)


async def _problem(
    req: falcon.asgi.Request, resp: falcon.asgi.Response, error: errors.Problem, params: Any
) -> None:
    _answer(resp, error.status, error.title, error.text)
    if error.retry is not None:
        resp.set_header("Retry-After", str(error.retry))
    if error.status >= 500 and error.retry is None:
        LOG.error("%s", error.text, exc_info=error, extra={"action": "request_failed"})


async def _framework(
    req: falcon.asgi.Request, resp: falcon.asgi.Response, error: falcon.HTTPError, params: Any
) -> None:
    _answer(resp, error.status_code, error.title, error.description)
    if error.headers:
        resp.set_headers(error.headers)


async def _status(
    req: falcon.asgi.Request, resp: falcon.asgi.Response, error: falcon.HTTPStatus, params: Any
) -> None:
    resp.status = error.status


async def _unexpected(
    req: falcon.asgi.Request, resp: falcon.asgi.Response, error: Exception, params: Any
) -> None:
    # The cause is for the operator's log, not for the client.
    LOG.error(
        "unexpected error in %s %s", req.method, req.path, exc_info=error, extra={"action": "bug"}
    )
    _answer(resp, 500, "Internal server error", "The request could not be served.")


def _answer(
    resp: falcon.asgi.Response, status: int, title: str | None, description: str | None
) -> None:
    resp.status = status
    document = {"title": title or falcon.code_to_http_status(status)}
    if description:
        document["description"] = description
    resp.data = msgspec.json.encode(document)
    resp.content_type = falcon.MEDIA_JSON
    resp.set_header("Vary", "Accept")
