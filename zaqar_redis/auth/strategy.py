# SPDX-License-Identifier: Apache-2.0
"""How the service finds out who asks: strategies, loaded by name."""

from __future__ import annotations

import abc
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from zaqar_redis import errors
from zaqar_redis.auth.access_keys import AccessKeyStore
from zaqar_redis.auth.identity import Identity

#: Headers of a request; names are in lower case.
Headers = Mapping[bytes, bytes]

#: API: the header that names a project, or those that oslo.context accepts in its place.
PROJECT_HEADERS = (b"x-project-id", b"x-tenant-id", b"x-tenant")
#: Identities that a process remembers: some MB.
_KNOWN_MAX = 8192


class AuthRequest(Protocol):
    """What a strategy sees of a request."""

    @property
    def method(self) -> str: ...

    @property
    def raw_path(self) -> str:
        """The path as it was sent, not decoded."""

    @property
    def query_string(self) -> str:
        """The same of the query; '' also without one."""

    @property
    def headers(self) -> Headers: ...

    async def read_body(self) -> bytes:
        """Returns the whole body.  Raises BadRequest when it is too large, or cut off."""


def project_header(headers: Headers) -> bytes | None:
    """Returns the project that a request names."""
    if b"x-project-id" in headers:  # faster than the loop: this is asked for each request
        return headers[b"x-project-id"]
    for name in PROJECT_HEADERS:
        if name in headers:
            return headers[name]
    return None


class AuthStrategy(Protocol):
    """One way to authenticate."""

    #: what a client without a credential is told to send (RFC 9110, 11.6.1); '': nothing
    challenge: str

    def identify(self, request: AuthRequest) -> Identity | Awaitable[Identity] | None:
        """Returns who sends a request; None: it has no credential of this kind.

        Raises Unauthenticated when the credential is not valid, and Unavailable when what could
        tell is; so does what is awaited.
        """

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class InvalidSignature(Exception):
    """A signature cannot be accepted; the text says why, unless it is just wrong."""


@runtime_checkable
class KeyVerifier(Protocol):
    """A strategy that knows the secrets of access keys."""

    async def verify(self, key_id: str, check: Callable[[str], Awaitable[None]]) -> Identity:
        """Returns whose key it is that has signed what *check* checks, with the key's secret.

        Raises what *check* does, but for InvalidSignature; Unauthenticated, TooManyAttempts,
        StoreUnavailable.
        """


class StrategyContext(NamedTuple):
    """What a strategy is created with."""

    #: all options (oslo.config)
    conf: Any
    #: returns settings with the values of their options
    settings: Callable[[Any], Any]
    #: creates the store of access keys, which its user starts and closes
    access_keys: Callable[[], AccessKeyStore]


class CachingStrategy(abc.ABC):
    """A strategy that asks somebody, and remembers the answer for a while."""

    challenge: str = ""

    def __init__(self) -> None:
        #: by credential: the identity, and until when it is known (time.monotonic)
        self._known: dict[Hashable, tuple[Identity, float]] = {}

    @abc.abstractmethod
    def credential(self, headers: Headers) -> Hashable | None:
        """Returns the credential of a request; None: it has none of this kind."""

    @abc.abstractmethod
    async def authenticate(self, headers: Headers) -> tuple[Identity, float]:
        """Returns whose credential it is, and for how many seconds that is sure.

        Raises as `AuthStrategy.identify`.
        """

    def identify(self, request: AuthRequest) -> Identity | Awaitable[Identity] | None:
        headers = request.headers
        credential = self.credential(headers)
        if credential is None:
            return None
        known = self._known.get(credential)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        return self._find(credential, headers)

    async def _find(self, credential: Hashable, headers: Headers) -> Identity:
        try:
            identity, seconds = await self.authenticate(headers)
        except errors.Unauthenticated:
            self._known.pop(credential, None)
            raise
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[credential] = identity, time.monotonic() + seconds
        return identity

    async def start(self) -> None:  # noqa: B027  # most have nothing to start
        """Prepares the strategy, in the worker."""

    async def close(self) -> None:  # noqa: B027  # most have nothing to close
        """Frees what the strategy has."""


class Authenticator:
    """Strategies, of which the first that finds a credential of its kind decides."""

    def __init__(self, strategies: Sequence[AuthStrategy], *, is_open: bool = False) -> None:
        """*is_open*: the project that a request names says all about who sends it."""
        self._strategies = strategies
        self.is_open = is_open
        #: of all of them
        self.challenge = ", ".join(filter(None, (each.challenge for each in strategies)))

    def identify(self, request: AuthRequest) -> Identity | Awaitable[Identity]:
        """Returns who sends a request.  Raises as `AuthStrategy.identify`."""
        for strategy in self._strategies:
            found = strategy.identify(request)
            if found is not None:
                return found
        raise errors.Unauthenticated(why="The request has no credential.", challenge=self.challenge)

    @property
    def key_verifier(self) -> KeyVerifier | None:
        """The strategy that knows the secrets of access keys; None: there is none."""
        found = (each for each in self._strategies if isinstance(each, KeyVerifier))
        return next(found, None)

    async def start(self) -> None:
        for strategy in self._strategies:
            await strategy.start()

    async def close(self) -> None:
        for strategy in self._strategies:
            await strategy.close()
