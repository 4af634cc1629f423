# SPDX-License-Identifier: Apache-2.0
"""The suites of stock's tests, and the environment that they read."""

from __future__ import annotations

import pkgutil
import unittest
from collections.abc import Iterator, Mapping
from importlib import import_module

from tests.upstream import generic
from tests.upstream.targets import DriverUnderTest

_UNIT = "zaqar.tests.unit"

#: Modules and packages whose tests are run unchanged. The module of stock's driver has
#: generic storage tests too; it is listed to measure stock only.
MODULES: Mapping[str, tuple[str, ...]] = {
    "transport": (
        # First: it counts calls that threads left over from the transports would make.
        *(f"{_UNIT}.notification", f"{_UNIT}.transport", f"{_UNIT}.common"),
        *(f"{_UNIT}.test_bootstrap", f"{_UNIT}.storage.test_pool_catalog_new"),
    ),
    "stock-redis": (f"{_UNIT}.storage.test_impl_redis",),
}
SUITES = ("storage", *MODULES)


def environment(suite: str, uri: str, configs: str) -> dict[str, str]:
    """Returns the variables of a suite; stock reads them when its tests are imported."""
    # "MONGODB" stands for any driver: these tests were written with it in mind, and
    # build the URIs of pools from its address.
    store = "REDIS" if suite == "stock-redis" else "MONGODB"
    return {
        "ZAQAR_TESTS_CONFIGS_DIR": configs,
        f"ZAQAR_TEST_{store}": "1",
        f"ZAQAR_TEST_{store}_URL": uri,
        "OS_TEST_TIMEOUT": "60",
    }


def tests(suite: str, target: DriverUnderTest) -> list[unittest.TestCase]:
    """Returns the tests of a suite, each once, in a fixed order."""
    if suite == "storage":
        found = generic.tests(target)
    else:
        loader = unittest.TestLoader()
        modules = [name for start in MODULES[suite] for name in _below(start)]
        found = loader.loadTestsFromNames(modules)
    return list({test.id(): test for test in _flat(found)}.values())


def _below(name: str) -> Iterator[str]:
    yield name
    path = getattr(import_module(name), "__path__", None)
    if path:
        yield from sorted(each.name for each in pkgutil.walk_packages(path, f"{name}."))


def _flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _flat(each)
        else:
            yield each
