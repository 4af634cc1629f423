# SPDX-License-Identifier: Apache-2.0
"""The description names all routes of the service, and no others."""

from __future__ import annotations

from falcon import inspect

from tests.api_schema import description
from zaqar_redis.api.app import ApiSettings, App
from zaqar_redis.storage import pools


def routed(admin_mode: bool) -> set[tuple[str, str]]:
    driver = pools.create("unix:///nowhere", "unix:///nowhere", {})  # the driver is never started
    app = App(driver, ApiSettings(admin_mode=admin_mode))
    return {
        (route.path, method.method)
        for route in inspect.inspect_routes(app._app)
        for method in route.methods
        if not method.internal
    }


def described() -> set[tuple[str, str]]:
    methods = {"get", "head", "put", "post", "patch", "delete", "options", "trace"}
    return {
        (path, name.upper())
        for path, item in description.document()["paths"].items()
        for name in item
        if name in methods
    }


def test_every_route_is_described_and_every_description_is_routed() -> None:
    assert described() == routed(admin_mode=True)


def test_descriptions_of_stores_are_for_operators_only() -> None:
    hidden = {path for path, _ in described() - routed(admin_mode=False)}
    assert hidden == {
        "/v2/health",
        *("/v2/pools", "/v2/pools/{pool}"),
        *("/v2/flavors", "/v2/flavors/{flavor}"),
        *("/v2/rebalance", "/v2/queues/{queue}/pool"),
    }


def test_the_description_is_valid_openapi() -> None:
    description.schema().validate()


def test_every_operation_has_a_distinct_id_and_a_summary() -> None:
    operations = [
        operation
        for item in description.document()["paths"].values()
        for name, operation in item.items()
        if name != "parameters"
    ]
    assert all(operation["summary"] for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)
