# SPDX-License-Identifier: Apache-2.0
"""What stands in the place of the future of a command in a batch, to measure it."""

from __future__ import annotations

import asyncio
from time import perf_counter_ns
from typing import Any

from zaqar_redis.metrics import definitions as metrics


class TimedAnswer:
    """In the place of the future of a command whose duration is measured."""

    def __init__(self, answer: asyncio.Future[Any], store: str, verb: str) -> None:
        self.answer = answer
        self._labels = store, verb
        self._written_at = perf_counter_ns()
        self.done = answer.done
        self.exception = answer.exception
        self.set_exception = answer.set_exception

    def set_result(self, result: Any) -> None:
        metrics.STORE_CALLS.add(perf_counter_ns() - self._written_at, *self._labels)
        self.answer.set_result(result)
