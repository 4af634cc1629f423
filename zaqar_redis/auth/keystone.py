# SPDX-License-Identifier: Apache-2.0
"""Tokens of OpenStack's Keystone."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from zaqar_redis import errors
from zaqar_redis.auth.identity import Identity
from zaqar_redis.auth.strategy import CachingStrategy, Headers, StrategyContext

if TYPE_CHECKING:
    from zaqar_redis.auth.keystone_tokens import TokenValidator
    from zaqar_redis.auth.keystone_trusts import KeystoneTrusts

_Credential = tuple[bytes, bytes | None]

#: Questions to Keystone at the same time, of one worker; Keystone has few processes itself.
_THREADS = 8
#: Tokens that wait for one of these threads: more would wait longer than clients do.
_WAITING_MAX = 1024
#: What can be a token: Keystone's are ASCII, and servers refuse a longer header.
_TOKEN = re.compile(rb"[!-~]{1,8000}")


class _Question:
    """A token that Keystone is asked about, and how many requests wait for the answer."""

    def __init__(self, asked: Future[tuple[Identity, float]]) -> None:
        self.asked = asked
        self.answer = asyncio.wrap_future(asked)
        self.waiting = 0


class KeystoneStrategy(CachingStrategy):
    """Asks Keystone, by way of keystonemiddleware and its cache, in threads of its own."""

    def __init__(self, validator: TokenValidator) -> None:
        super().__init__()
        self.challenge = validator.challenge
        self._validator = validator
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="keystone")
        #: by credential: many requests may come with a token that is not known yet
        self._running: dict[_Credential, _Question] = {}

    def credential(self, headers: Headers) -> _Credential | None:
        token = headers.get(b"x-auth-token")
        return None if token is None else (token, headers.get(b"x-service-token"))

    async def authenticate(self, headers: Headers) -> tuple[Identity, float]:
        credential = cast(_Credential, self.credential(headers))
        question = self._running.get(credential) or self._begin(credential)
        question.waiting += 1
        try:
            # While Keystone hangs, threads may be busy for longer.
            async with asyncio.timeout(self._validator.timeout):
                return await asyncio.shield(question.answer)
        except TimeoutError:
            self._validator.health.lost(f"no response within {self._validator.timeout:.0f} s")
            raise errors.Unavailable(
                why="Keystone did not answer in time. Please try again in a few seconds."
            ) from None
        finally:
            question.waiting -= 1
            # What no thread has begun would only keep others waiting, once Keystone is back.
            if not question.waiting and question.asked.cancel():
                del self._running[credential]

    def _begin(self, credential: _Credential) -> _Question:
        tokens = [each for each in credential if each is not None]
        if not all(_TOKEN.fullmatch(each) for each in tokens):
            raise errors.Unauthenticated(
                why="What the request has as its token cannot be one of Keystone's.",
                challenge=self.challenge,
            )
        if len(self._running) >= _WAITING_MAX:
            raise errors.Unavailable(
                why="Too many tokens wait for Keystone. Please try again in a few seconds."
            )
        validate = partial(self._validator.validate, *(each.decode() for each in tokens))
        question = self._running[credential] = _Question(self._threads.submit(validate))
        question.answer.add_done_callback(lambda done: self._end(credential, done))
        return question

    def _end(self, credential: _Credential, done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            del self._running[credential]
            done.exception()  # it may be that nobody waits any more

    async def start(self) -> None:
        _imported("keystone_tokens").limit_logs(logging.CRITICAL + 1)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def options(conf: Any) -> dict[str, list[Any]]:
    """Returns the options of keystonemiddleware, and those of the user that can be trusted.

    Raises BadConfiguration.
    """
    modules = map(_imported, ("keystone_tokens", "keystone_trusts"))
    return {group: each for module in modules for group, each in module.options(conf).items()}


def create(context: StrategyContext) -> KeystoneStrategy:
    """Creates the strategy from the group ``keystone_authtoken``.  Raises BadConfiguration."""
    return KeystoneStrategy(_imported("keystone_tokens").TokenValidator(context.conf))


def trusts(conf: Any) -> KeystoneTrusts | None:
    """Returns what asks Keystone for trusts; None: the group ``trustee`` names no user.

    *conf*: with the `options`.  Raises BadConfiguration.
    """
    found: KeystoneTrusts | None = _imported("keystone_trusts").create(conf)
    return found


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(f"zaqar_redis.auth.{module}")
    except ImportError as error:
        raise errors.BadConfiguration(
            f'[auth] strategy: keystone needs the extra "keystone" of this package ({error})'
        ) from error
