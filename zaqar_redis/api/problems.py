# SPDX-License-Identifier: Apache-2.0
"""From an exception to the answer ``{"title", "description"}``."""

from __future__ import annotations

import logging
from typing import Any

import falcon
import msgspec
from msgspec import UNSET
from oslo_context.context import RequestContext

from zaqar_redis import errors
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.schemas import ProblemOut
from zaqar_redis.metrics.definitions import AUTH_REFUSED

LOG = logging.getLogger(__name__)
_VARY = ("vary", "Accept")


def answer(
    error: BaseException,
    method: str,
    path: str,
    request: Request[Any, Any] | None,
    request_id: str,
) -> Answer:
    """Returns the answer for an error of a request, and logs those that operators must know.

    *request*: None when it was refused before it was read.
    """
    if isinstance(error, errors.Problem):
        count_refusal(error)
        headers = [_VARY]
        if isinstance(error, errors.Unauthenticated):
            headers.append(("www-authenticate", str(error.fields["challenge"])))
        if isinstance(error, errors.SubscriberTaken) and request is not None:
            headers.append(("location", request.path))  # API
        if isinstance(error, errors.UnsupportedContentCoding):
            headers.append(("accept-encoding", "identity"))  # RFC 9110, 15.5.16
        if error.retry is not None:
            headers.append(("retry-after", str(error.retry)))
        elif error.status >= 500:
            about = _about("request_failed", request, request_id)
            LOG.error("%s", error.text, exc_info=error.__cause__, extra=about)
        return _answer(error.status, error.title, error.text, headers)
    if isinstance(error, falcon.HTTPError):
        given = error.headers or {}
        headers = [_VARY, *(given.items() if isinstance(given, dict) else given)]
        return _answer(error.status_code, error.title, error.description, headers)
    if isinstance(error, falcon.HTTPStatus):
        return Answer(status=error.status_code)
    # The cause is for the operator's log, not for the client.
    about = _about("bug", request, request_id)
    LOG.error("unexpected error in %s %s", method, path, exc_info=error, extra=about)
    return _answer(500, "Internal server error", "The request could not be served.", [_VARY])


def count_refusal(error: errors.Problem) -> None:
    """Counts an answer to somebody who may not do what was asked."""
    if isinstance(error, (errors.Unauthenticated, errors.BadSignature)):
        AUTH_REFUSED.add("unauthenticated")
    elif type(error) is errors.Forbidden:
        AUTH_REFUSED.add("forbidden")


def _about(action: str, request: Request[Any, Any] | None, request_id: str) -> dict[str, Any]:
    """Returns what the log has beside the text of a line; ``context`` is oslo.log's."""
    about: dict[str, Any] = {"request_id": request_id}
    queue = ""
    if request is not None:
        about |= {
            "global_request_id": request.global_id or None,
            "user_id": request.identity.user,
            "project_id": request.project,
            "roles": sorted(request.identity.roles),
        }
        queue = request.queue
    return {"action": action, "queue": queue, "context": RequestContext(overwrite=False, **about)}


def _answer(
    status: int, title: str | None, description: str | None, headers: list[tuple[str, str]]
) -> Answer:
    document = ProblemOut(title or falcon.code_to_http_status(status), description or UNSET)
    # With the end of a line: at a terminal they are read as they are.
    return Answer(msgspec.json.encode(document) + b"\n", status, tuple(headers))
