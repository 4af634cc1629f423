# SPDX-License-Identifier: Apache-2.0
"""Stock's generic storage tests, completed with the classes of one driver."""

from __future__ import annotations

import unittest
from dataclasses import dataclass
from importlib import import_module

from tests.upstream.targets import Target

_BASE = "zaqar.tests.unit.storage.base"
_POOLING = "zaqar.storage.pooling"


@dataclass(frozen=True, slots=True)
class Noun:
    """One generic class, and what it tests: a controller on a driver."""

    name: str
    generic: str
    controller: str
    driver: str = "control"
    config: str = "wsgi_mongodb.conf"


#: A driver or controller with a colon is stock's; without, a part of the target.
NOUNS = (
    # Claims first: they sleep longest, and a run of many processes is as long as its
    # longest test from when that begins.
    Noun("Claims", "ClaimControllerTest", "claims", "data"),
    Noun(
        "PooledClaims",
        "ClaimControllerTest",
        f"{_POOLING}:ClaimController",
        f"{_POOLING}:DataDriver",
        "wsgi_mongodb_pooled.conf",
    ),
    Noun("Queues", "QueueControllerTest", "queues"),
    Noun("Messages", "MessageControllerTest", "messages", "data"),
    Noun("Subscriptions", "SubscriptionControllerTest", "subscriptions", "data"),
    Noun("Pools", "PoolsControllerTest", "pools"),
    Noun("Catalogue", "CatalogueControllerTest", "catalogue"),
    Noun("Flavors", "FlavorsControllerTest1", "flavors"),
    Noun(
        "PooledMessages",
        "MessageControllerTest",
        f"{_POOLING}:MessageController",
        f"{_POOLING}:DataDriver",
        "wsgi_mongodb_pooled.conf",
    ),
)


def tests(target: Target) -> unittest.TestSuite:
    loader = unittest.TestLoader()
    return unittest.TestSuite(
        loader.loadTestsFromTestCase(completed(noun, target)) for noun in NOUNS
    )


def completed(noun: Noun, target: Target) -> type[unittest.TestCase]:
    """The test class of a noun for a driver.  Raises ImportError."""
    attributes = {
        "__module__": __name__,
        "driver_class": target.load(noun.driver),
        "control_driver_class": target.load("control"),
        "controller_class": target.load(noun.controller),
        "config_file": noun.config,
        # Seconds until something that expired has gone; stock skips a test when it
        # is more than one, and fails it when it is none.
        "gc_interval": 1,
    }
    return type(noun.name, (getattr(import_module(_BASE), noun.generic),), attributes)
