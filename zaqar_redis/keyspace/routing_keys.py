# SPDX-License-Identifier: Apache-2.0
"""The keys of the routing service: which connections are subscribed to which topics."""

from __future__ import annotations

from urllib.parse import quote

#: Of all these keys, which share a slot.
PREFIX = b"zr:{routing}"


class RoutingKeys:
    """The keys of a subscription of a connection to a topic.

    They carry one hash tag, so that a change of both sides is one step.
    """

    __slots__ = ("client", "node", "nodes", "topic")

    def __init__(self, topic: str = "", client: str = "", node: str = "") -> None:
        #: set: clients that are subscribed to the topic
        self.topic = PREFIX + b":topic:" + quote(topic, safe="").encode()
        #: set: topics that the client is subscribed to
        self.client = PREFIX + b":client:" + client.encode()
        #: set: clients of a node that are subscribed to topics
        self.node = PREFIX + b":node:" + node.encode()
        #: zset: nodes, by the end of their lease
        self.nodes = PREFIX + b":nodes"
