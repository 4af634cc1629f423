# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI description, as users get it and as schemathesis reads it."""

from __future__ import annotations

import json
import os
from typing import Any, cast

import schemathesis
from schemathesis import config
from schemathesis import openapi as loaders
from schemathesis.specs.openapi.schemas import OpenApiSchema

from zaqar_redis import rules
from zaqar_redis.api import openapi
from zaqar_redis.api.app import App
from zaqar_redis.api.composition import ServiceParts, compose
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.storage import pools

schemathesis.serializer.alias("application/openstack-messaging-v2.0-json-patch", "application/json")

#: A long poll is short.
LIMITS = rules.Limits(max_wait=1)


def document(limits: rules.Limits = LIMITS, admin_mode: bool = True) -> dict[str, Any]:
    driver = pools.create("unix:///nowhere", "unix:///nowhere", {})  # the driver is never started
    settings = ApiSettings(limits=limits, admin_mode=admin_mode)
    routes = App(compose(settings, ServiceParts(driver))).routes
    return cast(dict[str, Any], json.loads(openapi.document(routes, limits)))


def schema() -> OpenApiSchema:
    settings = {
        "generation": {
            # With invalid signatures half of all requests would be refused.
            "with-security-parameters": False,
            "database": "none",
        },
        # Five thousand requests.
        "phases": {"coverage": {"enabled": "FUZZ_EXAMPLES" in os.environ}},
    }
    return loaders.from_dict(document(), config=config.SchemathesisConfig.from_dict(settings))
