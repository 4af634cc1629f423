# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI description, as users get it and as schemathesis reads it."""

from __future__ import annotations

from importlib import resources
from typing import Any, cast

import schemathesis
import yaml
from schemathesis import config, openapi
from schemathesis.specs.openapi.schemas import OpenApiSchema

schemathesis.serializer.alias("application/openstack-messaging-v2.0-json-patch", "application/json")


def document() -> dict[str, Any]:
    text = resources.files("zaqar_redis.api").joinpath("openapi.yaml").read_text()
    return cast(dict[str, Any], yaml.safe_load(text))


def schema() -> OpenApiSchema:
    settings = {
        "generation": {
            # With invalid signatures half of all requests would be refused.
            "with-security-parameters": False,
            "database": "none",
        }
    }
    return openapi.from_dict(document(), config=config.SchemathesisConfig.from_dict(settings))
