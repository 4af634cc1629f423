# SPDX-License-Identifier: Apache-2.0
"""The description names all routes of the service, and says of each what users must know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.api_schema import description
from tests.support import servers
from zaqar_redis import rules
from zaqar_redis.api import metadata_schemas, subscription_schemas
from zaqar_redis.service import subscription_options

METHODS = {"get", "head", "put", "post", "patch", "delete"}


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield method, path, operation


def schemas_below(document: dict[str, Any], found: Any) -> set[str]:
    """Returns the names of all schemas that *found* refers to, and those that these refer to."""
    text = str(found)
    names: set[str] = set()
    while new := set(re.findall(r"#/components/schemas/(\w+)", text)) - names:
        names |= new
        text = str([document["components"]["schemas"][name] for name in new])
    return names


def test_service_serves_the_description_with_its_limits_to_everybody(
    described: servers.RunningService,
) -> None:
    answer = httpx.get(f"{described.url}/openapi.json", timeout=30)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == description.document()


def test_paths_for_operators_are_described_only_in_admin_mode() -> None:
    hidden = description.document()["paths"].keys()
    hidden -= description.document(admin_mode=False)["paths"].keys()
    assert hidden == {
        "/v2/health",
        *("/v2/pools", "/v2/pools/{pool}"),
        *("/v2/flavors", "/v2/flavors/{flavor}"),
        *("/v2/rebalance", "/v2/queues/{queue}/pool"),
        "/v2/quotas",
    }


def test_the_description_is_valid_openapi() -> None:
    description.schema().validate()


def test_every_operation_has_a_distinct_id_and_a_summary() -> None:
    found = [operation for *_, operation in operations(description.document())]
    assert all(operation["summary"] for operation in found)
    assert len({operation["operationId"] for operation in found}) == len(found)


def test_every_read_but_a_ping_has_a_document() -> None:
    without = {
        path
        for method, path, operation in operations(description.document())
        if method == "get"
        if not any("content" in operation["responses"].get(status, {}) for status in ("200", "300"))
    }
    assert without == {"/v2/ping"}


def test_every_error_is_described_by_whole_sentences() -> None:
    texts = {
        response["description"]
        for *_, operation in operations(description.document())
        for status, response in operation["responses"].items()
        if status >= "400"
    }
    assert len(texts) > 10
    for text in texts:
        assert not re.search(r"[{}\n]|  ", text)
        assert all(len(sentence.split()) > 3 for sentence in text.split(". ")), text
        assert text.endswith(".")


def test_every_parameter_of_a_query_has_a_text() -> None:
    texts = [
        parameter["description"]
        for *_, operation in operations(description.document())
        for parameter in operation["parameters"]
        if parameter.get("in") == "query"
    ]
    assert len(texts) > 20
    assert all(texts)


def test_every_answer_has_no_other_fields_than_those_described() -> None:
    document = description.document()
    names = schemas_below(document, [each["responses"] for *_, each in operations(document)])
    assert len(names) > 20
    schemas = document["components"]["schemas"]
    assert [name for name in names if schemas[name]["additionalProperties"] is not False] == []


def test_limits_of_the_operator_are_those_of_the_description() -> None:
    limits = rules.Limits(
        max_messages_per_page=7,
        max_messages_per_claim_or_pop=8,
        max_queues_per_page=9,
        max_wait=3,
        max_message_ttl=77,
        max_messages_post_size=999,
    )
    document = description.document(limits)

    def maxima(method: str, path: str) -> dict[str, int]:
        parameters = document["paths"][path][method]["parameters"]
        shapes = {each["name"]: each["schema"] for each in parameters if each.get("in") == "query"}
        return {
            name: shape.get("maximum", shape.get("maxItems"))
            for name, shape in shapes.items()
            if "maximum" in shape or "maxItems" in shape
        }

    queue = "/v2/queues/{queue}"
    assert maxima("get", f"{queue}/messages") == {"ids": 7, "limit": 7, "wait": 3}
    assert maxima("delete", f"{queue}/messages") == {"ids": 7, "pop": 8, "claim_ids": 7}
    assert maxima("post", f"{queue}/claims") == {"limit": 8, "wait": 3}
    assert maxima("get", "/v2/queues") == {"limit": 9}
    message = document["components"]["schemas"]["MessageIn"]
    assert message["properties"]["ttl"]["maximum"] == 77
    post = document["paths"][f"{queue}/messages"]["post"]
    assert "999 bytes" in post["requestBody"]["description"]
    assert "limits." not in str(document["components"])


def test_client_id_that_need_not_be_a_uuid_is_described_by_its_length() -> None:
    limits = rules.Limits(client_id_uuid_safe="off", min_length_client_id=3)
    client = description.document(limits)["components"]["parameters"]["Client-ID"]
    assert client["schema"] == {"type": "string", "minLength": 3, "maxLength": 36}


def test_every_option_of_a_subscription_that_is_checked_is_described() -> None:
    assert subscription_schemas.OPTIONS.keys() == subscription_options.NAMES


def test_every_attribute_that_counts_is_described_and_documented() -> None:
    text = (Path(__file__).parents[2] / "doc" / "api.md").read_text()
    table = text.partition("## Reserved attributes of a queue")[2].partition("\n### ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented == {*metadata_schemas.ATTRIBUTES, "_flavor"}
