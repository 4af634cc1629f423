# SPDX-License-Identifier: Apache-2.0
"""Requests that are signed with an access key (RFC 9421, HTTP Message Signatures)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import NamedTuple

from http_message_signatures import (
    HTTPMessageSignaturesException,
    HTTPMessageVerifier,
    MappingKeyResolver,
)
from http_message_signatures.algorithms import HMAC_SHA256

from zaqar_redis.auth.access_keys import ID_PATTERN
from zaqar_redis.auth.strategy import PROJECT_HEADERS, AuthRequest, InvalidSignature

_KEY_ID = re.compile(rb';keyid="(%b)"' % ID_PATTERN.encode())
#: What a signature must cover, beside the digest of a body and the project.
_REQUIRED = ("@method", "@path", "@query")
#: By how much clocks of clients may differ from ours; together with the maximum age a signature
#: is valid for five minutes.
_CLOCK_SKEW = timedelta(minutes=1)
_AGE_MAX = timedelta(minutes=4)


class _Message(NamedTuple):
    """A request as the library wants it."""

    method: str
    url: str
    headers: dict[str, str]


class _Verifier(HTTPMessageVerifier):
    max_clock_skew = _CLOCK_SKEW


def signing_key_id(request: AuthRequest) -> str | None:
    """Returns the id of the access key that a request says it is signed with."""
    given = request.headers.get(b"signature-input")
    found = _KEY_ID.search(given) if given else None
    return None if found is None else found[1].decode()


async def verify(request: AuthRequest, key_id: str, secret: str) -> None:
    """Checks that the request, with its body, was signed with the key.

    Raises InvalidSignature, and what `AuthRequest.read_body` raises: the body is read only
    when the rest is right.
    """
    resolver = MappingKeyResolver(public_keys={key_id: secret.encode()}, private_keys={})
    verifier = _Verifier(signature_algorithm=HMAC_SHA256, key_resolver=resolver)
    message = _message(request)
    # The project decides what the request acts on.
    project = [name.decode() for name in PROJECT_HEADERS if name in request.headers]
    try:
        results = verifier.verify(
            message, max_age=_AGE_MAX, require_components=(*_REQUIRED, *project)
        )
        verifier.verify_body(message, results, await request.read_body())
    except HTTPMessageSignaturesException as error:
        raise InvalidSignature(str(error)) from error


def _message(request: AuthRequest) -> _Message:
    headers = {name.decode(): text.decode("latin-1") for name, text in request.headers.items()}
    query = f"?{request.query_string}" if request.query_string else ""
    # Which scheme the client used, a proxy in between may know, but not this service.
    url = f"http://{headers.get('host') or 'localhost'}{request.raw_path}{query}"
    return _Message(request.method, url, headers)
