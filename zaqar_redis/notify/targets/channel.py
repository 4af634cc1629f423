# SPDX-License-Identifier: Apache-2.0
"""The target of ``channel:<name>``: a real-time channel of the project."""

from __future__ import annotations

from zaqar_redis import errors, rules
from zaqar_redis.notify.target import DELIVERED, Delivery, Outcome, Result
from zaqar_redis.notify.target_context import TargetContext
from zaqar_redis.realtime.node.queue_channels import NAMESPACE
from zaqar_redis.service.subscription_options import SubscriptionOptions

_SCHEME = "channel:"
#: Centrifugo's limit of names.
_NAME_MAX = 255
#: Channels that are queues and topics. Their targets count the queues that a message has passed
#: through, and end a loop.
_QUEUES = (f"{NAMESPACE}:", rules.TOPIC_PREFIX)


class ChannelTarget:
    internal = True

    def __init__(self, context: TargetContext) -> None:
        self._channels = context.channels

    def check(self, subscriber: str, options: SubscriptionOptions) -> None:
        channel = subscriber.removeprefix(_SCHEME)
        if not 0 < len(channel) <= _NAME_MAX:
            raise errors.BadRequest(
                why=f'"subscriber": the name of the channel must have 1 to {_NAME_MAX} characters.'
            )
        queue = channel.removeprefix("$")
        if queue.startswith(_QUEUES):
            raise errors.BadRequest(
                why=f'"subscriber": the channel {channel} is a queue or a topic; subscribe {queue}.'
            )
        if self._channels is None:
            raise errors.BadRequest(why='"subscriber": this service has no channels.')
        self._channels.check(channel)

    async def close(self) -> None:
        pass

    async def deliver(self, delivery: Delivery) -> Result:
        channel = delivery.subscription.subscriber.removeprefix(_SCHEME)
        if self._channels is None:
            return Result(Outcome.RETRY, "this service has no channels")
        try:
            for message in delivery.messages:
                tags = {
                    name: str(value)
                    for name, value in (message.attributes or {}).items()
                    if not isinstance(value, bytes)
                }
                key = f"{delivery.subscription.id}.{message.id}"
                await self._channels.publish(delivery.project, channel, message.body, tags, key)
        except errors.Unavailable as problem:
            return Result(Outcome.RETRY, f"the channel {channel} is unavailable: {problem}")
        except errors.Problem as problem:
            return Result(Outcome.REFUSED, f"the channel {channel}: {problem}")
        return DELIVERED
