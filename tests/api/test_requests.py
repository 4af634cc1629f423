# SPDX-License-Identifier: Apache-2.0
"""Headers that every request needs, and headers of every response."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.support import fixtures, servers


def _bare(api: ZaqarTestClient, headers: dict[str, str], path: str = "/queues") -> httpx.Response:
    return api.http.get(f"{api.url}/v2{path}", headers=headers)


def test_missing_client_id_is_reported_before_missing_project(api: ZaqarTestClient) -> None:
    answer = _bare(api, {})
    refused(answer, 400, "Client-I")
    assert answer.json()["title"] == "Missing header value"


def test_client_id_is_required(api: ZaqarTestClient) -> None:
    refused(_bare(api, {"X-Project-ID": api.project}), 400, '"Client-ID" header is required')


@pytest.mark.parametrize("client", ["", "x", "123", "g" * 32, "0" * 31, "0" * 33])
def test_client_id_must_be_a_uuid(api: ZaqarTestClient, client: str) -> None:
    answer = _bare(api, {"X-Project-ID": api.project, "Client-ID": client})
    refused(answer, 400, "Malformed hexadecimal UUID", "Client-ID")
    assert answer.json()["title"] == "Wrong UUID value"


@pytest.mark.parametrize("spelling", ["{0}", "{{{0}}}", "urn:uuid:{0}"])
@pytest.mark.parametrize("dashes", [True, False])
def test_every_spelling_of_a_uuid_identifies_the_same_client(
    api: ZaqarTestClient, spelling: str, dashes: bool
) -> None:
    api.send("q", "mine")
    text = api.client if dashes else api.client.replace("-", "")
    same = ZaqarTestClient(api.http, api.url, api.project, spelling.format(text))
    assert same.bodies("q", echo=False) == []
    assert same.bodies("q") == ["mine"]


@pytest.mark.parametrize(
    ("project", "title"),
    [({}, "Project-Id Missing"), ({"X-Project-ID": ""}, "Empty project header not allowed")],
)
def test_project_is_required(api: ZaqarTestClient, project: dict[str, str], title: str) -> None:
    answer = _bare(api, {"Client-ID": api.client, **project})
    refused(answer, 400, "X-Project-ID")
    assert answer.json()["title"] == title


@pytest.mark.parametrize(("length", "status"), [(255, 200), (256, 200), (257, 400)])
def test_length_of_the_project(api: ZaqarTestClient, length: int, status: int) -> None:
    answer = api.another_client("p" * length).list("q")
    assert answer.status_code == status
    if status == 400:
        refused(answer, 400, "Project ids", "256")
        assert answer.json()["title"] == "Invalid queue identification"


@pytest.mark.parametrize("alias", ["X-Tenant-ID", "X-Tenant"])
def test_older_names_of_the_project_header(api: ZaqarTestClient, alias: str) -> None:
    api.create("q")
    answer = _bare(api, {"Client-ID": api.client, alias: api.project})
    assert [queue["name"] for queue in answer.json()["queues"]] == ["q"]


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json", 200),
        ("*/*", 200),
        ("application/*", 200),
        ("text/html, application/json;q=0.5", 200),
        ("text/html", 406),
        ("application/xml", 406),
    ],
)
@pytest.mark.parametrize("path", ["/queues", None])
def test_accept_header_is_checked(
    api: ZaqarTestClient, accept: str, status: int, path: str | None
) -> None:
    url = f"{api.url}/v2{path}" if path else f"{api.url}/"
    headers = {"Client-ID": api.client, "X-Project-ID": api.project, "Accept": accept}
    answer = api.http.get(url, headers=headers)
    assert answer.status_code == (status if path or status == 406 else 300)


def test_form_content_type_is_refused(api: ZaqarTestClient) -> None:
    answer = api.request(
        "POST",
        "/queues/q/messages",
        content=b"messages=1",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    refused(answer, 400, "application/x-www-form-urlencoded", "Content-Type: application/json")
    assert answer.json()["title"] == "Invalid Content-Type"


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json; charset=utf-8", "nonsense"])
def test_other_content_types_are_accepted(api: ZaqarTestClient, kind: str) -> None:
    content = b'{"messages": [{"body": 1}]}'
    headers = {"Content-Type": kind}
    answer = api.request("POST", "/queues/q/messages", content=content, headers=headers)
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/queues"),
        ("POST", "/queues/q"),
        ("HEAD", "/queues/q"),
        ("PUT", "/queues/q/messages"),
        ("GET", "/queues/q/purge"),
        ("PATCH", "/queues/q/messages/1"),
        ("PUT", "/queues/q/claims"),
        ("TRACE", "/queues"),
    ],
)
def test_unsupported_method_answers_405(api: ZaqarTestClient, method: str, path: str) -> None:
    answer = api.request(method, path)
    assert answer.status_code == 405 if method != "TRACE" else answer.status_code in (400, 405)
    if answer.status_code == 405:
        assert answer.headers["Allow"]
        if method != "HEAD":
            assert answer.json()["title"] == "405 Method Not Allowed"
            refused(answer, 405, f"/v2{path} does not take {method}", answer.headers["Allow"])


def test_errors_end_a_line_and_documents_are_as_stock_sends_them(api: ZaqarTestClient) -> None:
    assert api.get("/queues").content.endswith(b"}")
    for path in ("/queues?limit=x", "/nothing"):  # which of the two ways have
        assert api.get(path).content.endswith(b'"}\n')


def test_options_lists_the_methods_without_identity_headers(api: ZaqarTestClient) -> None:
    answer = api.http.options(f"{api.url}/v2/queues/q")
    assert answer.status_code == 200
    allowed = set(answer.headers["Allow"].split(", "))
    assert {"GET", "PUT", "PATCH", "DELETE"} <= allowed


@pytest.mark.parametrize("name", ["n" * 64, "a", "a.b", "-", "_", "A-Z_0.9"])
def test_valid_queue_names_are_accepted(api: ZaqarTestClient, name: str) -> None:
    assert api.create(name).status_code == 201
    assert [item["name"] for item in api.get("/queues").json()["queues"]] == [name]


@pytest.mark.parametrize(
    "name", ["n" * 65, "a b", "a%20b", "%C3%A4", "%FF", "a:b", "%7Bq%7D", "a$", "q%00", "%0A"]
)
def test_invalid_queue_names_are_refused(api: ZaqarTestClient, name: str) -> None:
    for answer in (api.create(name), api.list(name), api.get(f"/queues/{name}/stats")):
        refused(answer, 400, "Queue names")
        assert answer.json()["title"] == "Invalid queue identification"


def test_every_response_has_a_distinct_request_id(api: ZaqarTestClient) -> None:
    seen = set()
    for path in ("/queues", "/ping", "/nothing", "/queues/q?limit=x", "/queues/a%20b"):
        request = api.get(path).headers["X-OpenStack-Request-ID"]
        assert re.fullmatch(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", request)
        seen.add(request)
    assert len(seen) == 5


def test_errors_are_json_documents(api: ZaqarTestClient) -> None:
    answer = api.list("q", limit="x")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Vary"] == "Accept"
    refused(answer, 400, "limit")
    assert answer.json()["title"] == "Invalid parameter"


def test_spellings_of_booleans(api: ZaqarTestClient) -> None:
    api.send("q", 1)
    for text in ("true", "True", "t", "yes", "y", "1", "on"):
        assert (text, api.bodies("q", echo=text)) == (text, [1])
    for text in ("false", "False", "f", "no", "n", "0", "off", ""):
        assert (text, api.bodies("q", echo=text)) == (text, [])


@pytest.mark.parametrize("text", ["TRUE", "None", "x", "2"])
@pytest.mark.parametrize("name", ["echo", "include_claimed", "include_delayed"])
def test_invalid_boolean_is_refused(api: ZaqarTestClient, name: str, text: str) -> None:
    refused(api.get("/queues/q/messages", **{name: text}), 400, name)


@pytest.mark.parametrize("text", ["x", "1.5", "0x10", "1e2", "--1", "9" * 5000])
def test_invalid_number_is_refused(api: ZaqarTestClient, text: str) -> None:
    for path in ("/queues", "/queues/q/messages"):
        refused(api.get(path, limit=text), 400, "limit")


def test_last_value_of_a_repeated_parameter_applies(api: ZaqarTestClient) -> None:
    api.send("q", 1, 2, 3)
    answer = api.get("/queues/q/messages?limit=1&limit=2&echo=false&echo=true")
    assert len(answer.json()["messages"]) == 2


def test_unknown_parameters_are_ignored(api: ZaqarTestClient) -> None:
    api.send("q", 1)
    assert api.bodies("q", colour="blue") == [1]


#: A service that accepts client ids that are no UUIDs, with stock's length limits.
lax = fixtures.service({"transport": {"client_id_uuid_safe": "off"}})


@pytest.mark.parametrize(
    ("length", "status"), [(9, 400), (10, 201), (11, 201), (35, 201), (36, 201), (37, 400)]
)
def test_length_of_client_ids_that_are_not_uuids(
    http: httpx.Client, lax: servers.RunningService, project: str, length: int, status: int
) -> None:
    client = ZaqarTestClient(http, lax.url, project, "c" * length)
    answer = client.post("q", {"body": "mine"})
    assert answer.status_code == status
    if status == 400:
        refused(answer, 400, "Client-ID", "10", "36")
    else:
        assert client.bodies("q", echo=False) == []
        assert client.another_client().bodies("q", echo=False) == ["mine"]
