# SPDX-License-Identifier: Apache-2.0
"""rq, whose results nobody wants."""

from __future__ import annotations

from functools import partial

from redis import Redis
from rq import Queue

from benchmarks.clients import jobs

_queue = Queue(jobs.QUEUE, connection=Redis.from_url(jobs.ADDRESS))
post = partial(_queue.enqueue, jobs.do, result_ttl=0)
