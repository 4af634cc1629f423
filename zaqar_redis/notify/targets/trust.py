# SPDX-License-Identifier: Apache-2.0
"""The target of ``trust+http`` and ``trust+https``: webhooks with a token of Keystone.

The token is that of the user who has subscribed, by a trust.
"""

from __future__ import annotations

import asyncio

from zaqar_redis import errors
from zaqar_redis.notify.target import Delivery, Outcome, Result
from zaqar_redis.notify.target_context import TargetContext
from zaqar_redis.notify.targets.http import HttpTarget
from zaqar_redis.notify.trusts import TrustService
from zaqar_redis.service.subscription_options import SubscriptionOptions

_PREFIX = "trust+"
_UNAUTHORIZED = 401


class TrustTarget:
    #: see `Target.internal`
    internal = False

    def __init__(self, webhooks: HttpTarget, trusts: TrustService) -> None:
        """*webhooks*: for this target alone.  *trusts*: its owner closes it."""
        self._webhooks = webhooks
        self._trusts = trusts

    def check(self, subscriber: str, options: SubscriptionOptions) -> None:
        self._trusts.check()
        if not isinstance(options.raw.get("trust_id", ""), str):
            raise errors.BadRequest(why='The value of "options.trust_id" must be a text.')
        self._webhooks.check(_uri(subscriber), options)

    async def close(self) -> None:
        await self._webhooks.close()

    async def deliver(self, delivery: Delivery) -> Result:
        trust = delivery.options.raw.get("trust_id")
        if not isinstance(trust, str):
            return Result(Outcome.REFUSED, error="The subscription has no trust_id.")
        seconds = delivery.options.timeout
        try:
            async with asyncio.timeout(seconds):
                return await self._deliver(delivery, trust)
        except TimeoutError:
            return Result(Outcome.RETRY, error=f"There was no answer within {seconds:g} seconds.")
        except (errors.Forbidden, errors.BadRequest) as error:
            return Result(Outcome.REFUSED, error=errors.reason(error))
        except errors.Unavailable as error:
            return Result(Outcome.RETRY, error=errors.reason(error))

    async def _deliver(self, delivery: Delivery, trust: str) -> Result:
        was_known = self._trusts.has_token(trust)
        result = await self._attempt(delivery, trust)
        if result.status != _UNAUTHORIZED:
            return result
        self._trusts.forget_token(trust)  # it may have been revoked
        return await self._attempt(delivery, trust) if was_known else result

    async def _attempt(self, delivery: Delivery, trust: str) -> Result:
        token = await self._trusts.token(trust)
        uri = _uri(delivery.subscription.subscriber)
        return await self._webhooks.send(delivery, uri, {"X-Auth-Token": token})


def _uri(subscriber: str) -> str:
    return subscriber[len(_PREFIX) :]


def create(context: TargetContext) -> TrustTarget:
    """The object of the entry points ``trust+http`` and ``trust+https``."""
    return TrustTarget(HttpTarget(context.http), context.trusts or TrustService(None))
