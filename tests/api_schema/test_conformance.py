# SPDX-License-Identifier: Apache-2.0
"""Every response to random requests is one that the description names, and none is a 5xx.

More of them, and those that schemathesis derives from each bound and type: set FUZZ_EXAMPLES, as
tools/test --all does.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks
from schemathesis.specs.openapi.schemas import OpenApiSchema

from tests.api_schema import description
from tests.support import servers

#: Made by the process that runs the test: its examples take seconds, and all processes collect it.
SCHEMA = schemathesis.pytest.from_fixture("schema")

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture
def schema() -> OpenApiSchema:
    return description.schema()


@pytest.mark.timeout(600)
@SCHEMA.parametrize()
@settings(
    max_examples=40 if "FUZZ_EXAMPLES" in os.environ else 8,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_conforms_to_the_description(
    case: schemathesis.Case[Any], described: servers.RunningService
) -> None:
    case.call_and_validate(base_url=described.url, checks=CHECKS)
