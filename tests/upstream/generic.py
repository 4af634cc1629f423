# SPDX-License-Identifier: Apache-2.0
"""Stock's generic storage tests, completed with the classes of one driver."""

from __future__ import annotations

import unittest
from dataclasses import dataclass
from importlib import import_module

from tests.upstream.targets import DriverUnderTest

_BASE = "zaqar.tests.unit.storage.base"
_POOLING = "zaqar.storage.pooling"


@dataclass(frozen=True, slots=True)
class GenericSuite:
    """A generic test class, and the controller and driver that it tests."""

    name: str
    generic: str
    controller: str
    driver: str = "control"
    config: str = "wsgi_mongodb.conf"


#: Driver and controller: a name with a colon is stock's; without, a field of the target.
GENERIC_SUITES = (
    # Claims first: they sleep longest, and a run of many processes ends with its longest
    # test.
    GenericSuite("Claims", "ClaimControllerTest", "claims", "data"),
    GenericSuite(
        "PooledClaims",
        "ClaimControllerTest",
        f"{_POOLING}:ClaimController",
        f"{_POOLING}:DataDriver",
        "wsgi_mongodb_pooled.conf",
    ),
    GenericSuite("Queues", "QueueControllerTest", "queues"),
    GenericSuite("Messages", "MessageControllerTest", "messages", "data"),
    GenericSuite("Subscriptions", "SubscriptionControllerTest", "subscriptions", "data"),
    GenericSuite("Pools", "PoolsControllerTest", "pools"),
    GenericSuite("Catalogue", "CatalogueControllerTest", "catalogue"),
    GenericSuite("Flavors", "FlavorsControllerTest1", "flavors"),
    GenericSuite(
        "PooledMessages",
        "MessageControllerTest",
        f"{_POOLING}:MessageController",
        f"{_POOLING}:DataDriver",
        "wsgi_mongodb_pooled.conf",
    ),
)


def tests(target: DriverUnderTest) -> unittest.TestSuite:
    loader = unittest.TestLoader()
    return unittest.TestSuite(
        loader.loadTestsFromTestCase(completed(suite, target)) for suite in GENERIC_SUITES
    )


def completed(suite: GenericSuite, target: DriverUnderTest) -> type[unittest.TestCase]:
    """Returns the test class of a suite for a driver.  Raises ImportError."""
    attributes = {
        "__module__": __name__,
        "driver_class": target.load(suite.driver),
        "control_driver_class": target.load("control"),
        "controller_class": target.load(suite.controller),
        "config_file": suite.config,
        # Seconds until an expired record is removed; stock skips a test when it is more
        # than one, and fails it when it is zero.
        "gc_interval": 1,
    }
    return type(suite.name, (getattr(import_module(_BASE), suite.generic),), attributes)
