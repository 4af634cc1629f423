# SPDX-License-Identifier: Apache-2.0
"""What the answer of a webhook's endpoint, or its failure to answer, means for a delivery.

Errors name the origin of the endpoint, never its path or query, which may hold secrets, and never
an address that a name resolves to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import aiohttp
from yarl import URL

from zaqar_redis.notify.addresses import AddressNotAllowed
from zaqar_redis.notify.target import Outcome, Result

#: Seconds: endpoints that want to wait longer are asked again after an hour.
RETRY_AFTER_MAX = 3600.0
#: Characters of an answer that are kept.
_SHOWN = 1024
#: Besides 5xx: request timeout, too early, too many requests.
_RETRIED = (408, 425, 429)


class BadRedirect(Exception):
    """An endpoint redirects to where a webhook does not go."""

    def __init__(self, url: URL, status: int, why: str) -> None:
        """*url* answered with *status*; *why* says where that leads."""
        super().__init__(f"{url.origin()} answered {status}: a redirect {why}")
        self.status = status


def judged(url: URL, status: int, headers: Mapping[str, str]) -> Result:
    """Returns what an answer with this status means; redirects that lead on were followed before.

    One that is left was not: whatever is behind it, a login for example, has not got the messages.
    """
    if 200 <= status < 300:
        return Result(Outcome.DELIVERED, status=status)
    error = f"{url.origin()} answered {status}"
    if 300 <= status < 400:
        error += f": {_redirect_left(url, headers.get('Location'))}"
    if status == 410:
        return Result(Outcome.GONE, error, status)
    if 400 <= status < 500 and status not in _RETRIED:
        return Result(Outcome.REFUSED, error, status)
    wanted = retry_after(headers.get("Retry-After", ""), time.time())
    return Result(Outcome.RETRY, error, status, wanted)


def _redirect_left(url: URL, location: str | None) -> str:
    if location is None:
        return "a redirect without a Location"
    try:
        to = url.join(URL(location)).origin()
    except ValueError:
        return "a redirect to what is no URI of a host"
    where = "another path there" if to == url.origin() else to
    return f"a redirect to {where}, which is not followed"


def retry_after(value: str, now: float) -> float | None:
    """Returns seconds; None: it is neither delay-seconds nor an HTTP-date (RFC 9110, 10.2.3)."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:12]), RETRY_AFTER_MAX)
    try:
        seconds = parsedate_to_datetime(value).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_MAX)


def shown(data: bytes) -> str:
    """Returns the beginning of an answer's text, without control characters."""
    text = data[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)


def failure(error: Exception, url: URL, seconds: float) -> Result:
    """Returns what it means that there was no answer; *seconds*: the time-out of the attempt."""
    origin = url.origin()
    # Refused certificates are ValueErrors, too.
    if isinstance(error, aiohttp.InvalidURL) or (
        isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError)
    ):
        return Result(Outcome.REFUSED, f"no request can be written for {origin}")
    status = error.status if isinstance(error, BadRedirect) else 0
    return Result(Outcome.RETRY, _described(error, origin, seconds), status)


def _described(error: Exception, origin: URL, seconds: float) -> str:
    match error:
        case TimeoutError():
            return f"{origin} did not answer within {seconds:g} s"
        case BadRedirect():
            return str(error)
        case aiohttp.ClientConnectorDNSError():
            return f"the name of {origin} could not be resolved"
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or "it is not valid"
            return f"the certificate of {origin} is refused: {reason}"
        case aiohttp.ClientConnectorSSLError():
            return f"no TLS with {origin} is possible"
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, AddressNotAllowed):
            return f"the address of {origin} is not allowed"
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            reason = f": {os.strerror(number)}" if number else ""
            return f"no connection to {origin} is possible{reason}"
        case aiohttp.ServerDisconnectedError() | OSError():
            return f"{origin} closed the connection without an answer"
        case _:
            return f"{origin} did not answer as HTTP servers do"
