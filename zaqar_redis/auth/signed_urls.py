# SPDX-License-Identifier: Apache-2.0
"""Pre-signed URLs: access to some paths and methods until an expiry time.

The signature is stock Zaqar's: lowercase hex HMAC-SHA256 over paths, methods,
project and expiry, sorted and joined, with a backslash and an ``n`` between.
A signed path grants access to itself and to paths below it, and to nothing else.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from zaqar_redis import clock, errors, rules

_DAY = timedelta(days=1)
_FORMAT = "%Y-%m-%dT%H:%M:%S"
METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
RESOURCES = ("claims", "messages", "subscriptions")
#: Nobody claims messages of a topic.
TOPIC_RESOURCES = ("messages", "subscriptions")


class SignedUrl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that a client with a pre-signed URL sends."""

    paths: Annotated[
        list[Annotated[str, Meta(pattern="^/v2/(queues|topics)/")]], Meta(min_length=1)
    ]
    methods: Annotated[list[str], Meta(min_length=1)]
    project: str
    expires: Annotated[str, Meta(description="In UTC.", pattern=r"^[-0-9]{10}T[:0-9]{8}$")]
    signature: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


class UrlSigner:
    """Creation and verification of signatures; without a key, both fail."""

    def __init__(self, key: str | None, now: Callable[[], datetime] = _now) -> None:
        self._key = key
        self._now = now

    def share(
        self,
        project: str,
        queue: str,
        paths: Sequence[str] | None,
        methods: Sequence[str] | None,
        expires: str | None,
    ) -> SignedUrl:
        """Returns a signature for paths of a queue or topic.  Raises BadRequest."""
        self.check_signable(project)
        wanted = ["messages"] if paths is None else paths
        allowed = ["GET"] if methods is None else methods
        _check_among("paths", wanted, TOPIC_RESOURCES if rules.is_topic(queue) else RESOURCES)
        _check_among("methods", allowed, METHODS)
        signed_paths = sorted(f"{rules.path_of(queue)}/{path}" for path in set(wanted))
        return self._signed(signed_paths, sorted(set(allowed)), project, self._expiry(expires))

    def sign(self, project: str, path: str, method: str, seconds: int) -> SignedUrl:
        """Returns a signature for one path that expires.  Raises as `check_signable`."""
        self.check_signable(project)
        until = clock.later(self._now(), seconds).strftime(_FORMAT)
        return self._signed([path], [method], project, until)

    def check_signable(self, project: str) -> None:
        """Raises BadRequest when nothing can be signed for the project."""
        if not self._key:
            raise errors.BadRequest(
                why="The operator has not set [signed_url] secret_key: no URL can be signed."
            )
        if "\\" in project:
            raise errors.BadRequest(why="A project id with a backslash cannot be signed for.")

    def check(self, shown: SignedUrl, method: str, path: str) -> None:
        """Raises BadSignature unless *shown* allows *method* on *path* now."""
        if not self._key:
            raise errors.BadSignature
        signature = self._signature(
            sorted(shown.paths), sorted(shown.methods), shown.project, shown.expires
        )
        genuine = hmac.compare_digest(signature.encode(), shown.signature.encode())
        # A backslash could move the border between two of the signed fields.
        clean = "\\" not in "".join((*shown.paths, *shown.methods, shown.project, shown.expires))
        # Every condition is evaluated: the time it takes reveals nothing.
        covered = any(path == signed or path.startswith(signed + "/") for signed in shown.paths)
        allowed = method in shown.methods and self._is_current(shown.expires)
        if not (genuine and clean and covered and allowed):
            raise errors.BadSignature

    def _is_current(self, expires: str) -> bool:
        try:
            return _parsed(expires) > self._now()
        except ValueError:
            return False

    def _expiry(self, expires: str | None) -> str:
        if expires is None:
            return (self._now() + _DAY).strftime(_FORMAT)
        try:
            until = _parsed(expires)
        except ValueError:
            raise errors.BadRequest(
                why='The value of "expires" must be a time in ISO 8601, e.g. 2030-01-31T12:00:00.'
            ) from None
        if until <= self._now():
            raise errors.BadRequest(why='The value of "expires" must be in the future.')
        return until.strftime(_FORMAT)

    def _signed(
        self, paths: list[str], methods: list[str], project: str, expires: str
    ) -> SignedUrl:
        """*paths* and *methods* are sorted."""
        return SignedUrl(
            paths=paths,
            methods=methods,
            project=project,
            expires=expires,
            signature=self._signature(paths, methods, project, expires),
        )

    def _signature(
        self, paths: Sequence[str], methods: Sequence[str], project: str, expires: str
    ) -> str:
        text = r"\n".join((",".join(paths), ",".join(methods), project, expires))
        return hmac.digest((self._key or "").encode(), text.encode(), "sha256").hex()


def seconds_left(expires: str) -> int:
    """Returns for how many seconds, at least one, a URL that was found valid still is."""
    return max(1, int((_parsed(expires) - _now()).total_seconds()))


def _parsed(expires: str) -> datetime:
    """Returns the time in UTC, without a zone.  Raises ValueError."""
    try:
        until = datetime.fromisoformat(expires)
        return until.astimezone(UTC).replace(tzinfo=None) if until.tzinfo else until
    except OverflowError as error:
        raise ValueError(expires) from error


def _check_among(field: str, values: Sequence[str], allowed: Sequence[str]) -> None:
    for value in values:
        if value not in allowed:
            raise errors.BadRequest(
                why=f'"{value}" in "{field}" is not one of {", ".join(allowed)}.'
            )
    if not values:
        raise errors.BadRequest(why=f'"{field}" may not be empty.')
