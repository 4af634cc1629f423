# SPDX-License-Identifier: Apache-2.0
"""What the monitor of stores says of one that is slow, and of one that does not answer."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.test_alarms import HEALTHY
from zaqar_redis.figures import StoreStatus
from zaqar_redis.service import stores
from zaqar_redis.service.stores import StoreMonitor, StoreReport
from zaqar_redis.storage import pools
from zaqar_redis.storage.contract import Driver


async def _never(*_: object) -> Any:
    await asyncio.Event().wait()


async def _report(spoil: Callable[[Driver], None]) -> StoreReport:
    """Returns what is told of a store of which something never answers."""
    uri = f"memory://{uuid.uuid4()}"
    driver = pools.create(uri, uri, {})
    await driver.start()
    spoil(driver.router.stores.default.driver)
    monitor = StoreMonitor(driver)
    reports = {(each.kind, each.name): each for each in await monitor.reports(0.9)}
    await monitor.close()
    await driver.close()
    return reports["queues", "default"]


async def test_store_that_answers_and_is_slow_to_tell_the_rest_is_not_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = await _report(lambda store: monkeypatch.setattr(store.figures, "status", _never))
    assert (report.available, report.error, report.status) == (True, "", None)
    assert report.latency is not None


async def test_store_that_is_slow_to_tell_its_deliveries_has_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def status() -> StoreStatus:
        return HEALTHY

    monkeypatch.setattr(stores, "_late_deliveries", _never)
    report = await _report(lambda store: monkeypatch.setattr(store.figures, "status", status))
    assert (report.available, report.status) == (True, HEALTHY)


async def test_store_that_does_not_answer_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    report = await _report(lambda store: monkeypatch.setattr(store, "ping", _never))
    assert (report.available, report.error) == (False, "It did not answer within 0.9 s.")
