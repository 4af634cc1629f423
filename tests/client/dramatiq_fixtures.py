# SPDX-License-Identifier: Apache-2.0
"""What dramatiq's tests expect beside them, with the service's broker for each of theirs.

`test_dramatiq_suite` copies it into their folder, as `conftest.py` and as `common.py`.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq.rate_limits.backends import StubBackend as StubLimits
from dramatiq.results.backends import StubBackend as StubResults
from zaqar_redis_client.dramatiq import ZaqarBroker

RABBITMQ_CREDENTIALS = RABBITMQ_USERNAME = RABBITMQ_PASSWORD = None


def skip_in_ci(test: Any) -> Any:
    return test


skip_on_pypy = skip_on_windows = skip_unless_rabbit_mq = skip_in_ci


class _JoinableBroker(ZaqarBroker):
    """Passes the errors of jobs on, as dramatiq's broker for tests does."""

    def __init__(self, *, fail_fast: bool) -> None:
        super().__init__(os.environ["SERVICE"], uuid.uuid4().hex)
        self._fail_fast = fail_fast
        self._errors: list[BaseException] = []

    def emit_before(self, signal: str, *args: Any, **kwargs: Any) -> None:
        if signal == "nack":
            self._errors.append(args[0]._exception or Exception("failed"))
        super().emit_before(signal, *args, **kwargs)

    def join(self, queue_name: str, *, fail_fast: bool | None = None, **options: Any) -> None:
        super().join(queue_name, interval=20, **options)
        errors, self._errors = self._errors, []  # a test looks for what keeps them
        if errors and (self._fail_fast if fail_fast is None else fail_fast):
            raise errors[0]


@contextlib.contextmanager
def worker(*args: Any, **options: Any) -> Iterator[dramatiq.Worker]:
    found = dramatiq.Worker(*args, **options)
    found.start()
    try:
        yield found
    finally:
        found.stop()


def _broker(*, fail_fast: bool) -> Iterator[ZaqarBroker]:
    broker = _JoinableBroker(fail_fast=fail_fast)
    broker.emit_after("process_boot")
    dramatiq.set_broker(broker)
    yield broker
    broker.close()


def _worker(broker: ZaqarBroker) -> Iterator[dramatiq.Worker]:
    with worker(broker, worker_timeout=100, worker_threads=8) as found:
        yield found


@pytest.fixture
def stub_broker() -> Iterator[ZaqarBroker]:
    yield from _broker(fail_fast=True)


@pytest.fixture
def stub_worker(stub_broker: ZaqarBroker) -> Iterator[dramatiq.Worker]:
    yield from _worker(stub_broker)


@pytest.fixture
def redis_broker() -> Iterator[ZaqarBroker]:
    yield from _broker(fail_fast=False)


@pytest.fixture
def redis_worker(redis_broker: ZaqarBroker) -> Iterator[dramatiq.Worker]:
    yield from _worker(redis_broker)


@pytest.fixture
def result_backend() -> StubResults:
    return StubResults()


@pytest.fixture
def rate_limiter_backend() -> StubLimits:
    return StubLimits()
