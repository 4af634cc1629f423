# SPDX-License-Identifier: Apache-2.0
"""What subscriptions cost a post, and how fast messages are forwarded, fanned out and delivered.

    python -m benchmarks.notifications --rounds 5
    python -m benchmarks.notifications --part http --seconds 5

posts: wrk posts single messages to a service of one worker, to a queue without subscriptions, with
one, and with many. No notifier runs: what it costs beside the post is measured by the other parts;
a loop empties the entries as it would, so that posts tell notifiers as often as can be.
forward: a notifier in this process forwards messages from a queue to another, compared with posts
of the same messages in hundreds. fanout: it forwards one message to many queues, compared with a
post to each.
http: a process of zaqar-redis notify delivers a backlog to an endpoint, each message by itself and
a hundred in a request, compared with a loop that posts the same bodies with the same HTTP client.
"""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Mapping

from benchmarks.notifications.pairs import PairedFigures
from benchmarks.notifications.queues import QueueDelivery
from benchmarks.notifications.webhooks import WebhookDelivery
from benchmarks.support.program import MeasurePart, PartsProgram

PARTS = ("posts", "forward", "fanout", "http")


def main() -> int:
    program = PartsProgram("notifications", __doc__, PARTS)
    program.add_seconds(2)
    program.add_number("--subscriptions", 1, 100_000, 10_000, "of the queue with many")
    found = PairedFigures()

    def prepare(given: Namespace, stack: contextlib.ExitStack) -> Mapping[str, MeasurePart]:
        queues = QueueDelivery(given, found)
        return {
            "posts": queues.posts,
            "forward": queues.forward,
            "fanout": queues.fanout,
            "http": WebhookDelivery(given, found).measure,
        }

    return program.run(prepare, found)


if __name__ == "__main__":
    raise SystemExit(main())
