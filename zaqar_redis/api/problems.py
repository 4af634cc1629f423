# SPDX-License-Identifier: Apache-2.0
"""From an exception to the answer ``{"title", "description"}``."""

from __future__ import annotations

import logging

import falcon
import msgspec
from msgspec import UNSET

from zaqar_redis import errors
from zaqar_redis.api.exchange import Answer
from zaqar_redis.api.schemas import ProblemOut

LOG = logging.getLogger(__name__)
_VARY = ("vary", "Accept")


def answer(error: BaseException, method: str, path: str) -> Answer:
    """Returns the answer for an error of a request, and logs those that operators must know."""
    if isinstance(error, errors.Problem):
        headers = [_VARY]
        if isinstance(error, errors.Unauthenticated):
            headers.append(("www-authenticate", str(error.fields["challenge"])))
        if error.retry is not None:
            headers.append(("retry-after", str(error.retry)))
        elif error.status >= 500:
            LOG.error("%s", error.text, exc_info=error, extra={"action": "request_failed"})
        return _answer(error.status, error.title, error.text, headers)
    if isinstance(error, falcon.HTTPError):
        given = error.headers or {}
        headers = [_VARY, *(given.items() if isinstance(given, dict) else given)]
        return _answer(error.status_code, error.title, error.description, headers)
    if isinstance(error, falcon.HTTPStatus):
        return Answer(status=error.status_code)
    # The cause is for the operator's log, not for the client.
    LOG.error("unexpected error in %s %s", method, path, exc_info=error, extra={"action": "bug"})
    return _answer(500, "Internal server error", "The request could not be served.", [_VARY])


def _answer(
    status: int, title: str | None, description: str | None, headers: list[tuple[str, str]]
) -> Answer:
    document = ProblemOut(title or falcon.code_to_http_status(status), description or UNSET)
    return Answer(msgspec.json.encode(document), status, tuple(headers))
