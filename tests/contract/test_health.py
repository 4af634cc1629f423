# SPDX-License-Identifier: Apache-2.0
"""Health of stores that do not answer."""

from __future__ import annotations

import pytest

from tests.support.stores import ContractStore
from zaqar_redis import errors
from zaqar_redis.check_records import StoreHealth
from zaqar_redis.service.health import HealthService


@pytest.mark.parametrize(
    "error", [errors.StoreUnavailable("the store"), errors.Overloaded(store="the store")], ids=type
)
def test_store_that_does_not_answer_is_reported(
    real: ContractStore, monkeypatch: pytest.MonkeyPatch, error: errors.Problem
) -> None:
    async def fail() -> None:
        raise error

    monkeypatch.setattr(real.driver, "ping", fail)
    assert real.run(HealthService(real.driver).check()) == (False, StoreHealth(False, {}))
