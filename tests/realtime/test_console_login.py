# SPDX-License-Identifier: Apache-2.0
"""Signing in to the console with tokens: by hand, at an OpenID provider, and as a reader."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.auth import key_clients
from tests.realtime.console_pages import choose_project, wait_in_page, write
from tests.support import openid, servers
from tests.support.backends import Backend
from tests.support.openid import OpenIdProvider


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdProvider]:
    started = OpenIdProvider()
    started.add_key("first")
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def service(redis_server: Backend, provider: OpenIdProvider) -> Iterator[servers.RunningService]:
    options = openid.options(provider) | {"console": {"client_id": openid.CLIENT_ID}}
    options["auth"] = key_clients.OPTIONS["auth"] | {"strategy": "key, jwt"}
    channels: dict[str, object] = {"presence": True, "history_size": 10, "history_ttl": 60}
    with servers.service(redis_server.uri, options=options | {"channels": channels}) as running:
        yield running


def post(service: servers.RunningService, token: str, queue: str) -> None:
    headers = {"Authorization": f"Bearer {token}", "Client-ID": str(uuid.uuid4())}
    url = f"{service.url}/v2/queues/{queue}/messages"
    assert httpx.post(url, headers=headers, json={"messages": [{"body": 1}]}).status_code == 201


def sign_in_with_token(page: Page, token: str) -> None:
    page.get_by_label("Sign in with").select_option("Token")
    page.locator("#secret").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_user_of_an_openid_provider_stays_signed_in(
    page: Page, service: servers.RunningService, provider: OpenIdProvider, project: str
) -> None:
    post(service, provider.token(project=project), "orders")
    provider.claims = {"project": project, "roles": ["zaqar-reader"]}
    issued: list[str] = []

    def shorten_first(route: Route) -> None:
        # On a busy machine all of them would end before they are used.
        provider.seconds = 300 if issued else 2
        issued.append(route.request.url)
        route.continue_()

    page.route("**/token_endpoint", shorten_first)
    page.goto(f"{service.url}/console/#/queues/orders")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    assert page.url == f"{service.url}/console/#/queues/orders?project={project}"
    expect(page.locator("#who")).to_have_text("ann: reader")
    expect(page.locator("[data-figure=total]")).to_have_text("1")
    wait_in_page(page, lambda: len(issued) > 1, "a renewal")
    post(service, provider.token(project=project), "orders")
    expect(page.locator("[data-figure=total]")).to_have_text("2")
    page.reload()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()


def test_renewed_credential_is_kept_and_forgotten_by_who_signs_out_meanwhile(
    page: Page, service: servers.RunningService, provider: OpenIdProvider, project: str
) -> None:
    provider.claims, provider.seconds = {"project": project}, 300
    page.goto(f"{service.url}/console/")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#who")).to_contain_text("ann")
    spoil = """() => {
        const kept = JSON.parse(sessionStorage.getItem("zaqar-redis.credential"));
        kept.headers.Authorization = "Bearer spoiled";
        sessionStorage.setItem("zaqar-redis.credential", JSON.stringify(kept));
    }"""
    page.evaluate(spoil)
    page.reload()
    expect(page.locator("#who")).to_contain_text("ann")
    kept = page.evaluate("sessionStorage.getItem('zaqar-redis.credential')")
    assert "spoiled" not in kept
    renewals: list[str] = []
    looks: list[Route] = []

    def note_renewal(request: Request) -> None:
        if "token_endpoint" in request.url:
            renewals.append(request.url)

    def fail_second(route: Route) -> None:
        looks.append(route)
        if len(looks) == 2:
            route.abort()
        else:
            route.continue_()

    page.evaluate(spoil)
    page.on("request", note_renewal)
    page.route("**/console/session", fail_second)
    page.reload()
    expect(page.locator("#who")).to_contain_text("ann", timeout=30_000)
    assert (len(renewals), len(looks)) == (1, 3)
    held: list[Route] = []
    page.evaluate(spoil)
    page.route("**/token_endpoint", lambda route: held.append(route))
    page.reload()
    wait_in_page(page, lambda: bool(held), "the renewal")
    page.locator("#sign-out").evaluate("button => button.click()")
    with page.expect_response("**/token_endpoint"), page.expect_response("**/console/session"):
        held.pop().continue_()
    assert page.evaluate("sessionStorage.getItem('zaqar-redis.credential')") is None
    expect(page.locator("#sign-in")).to_be_visible()


def test_answer_of_a_sign_in_that_this_tab_did_not_begin_is_refused(
    page: Page, service: servers.RunningService
) -> None:
    page.goto(f"{service.url}/console/?code=the-code&state=forged")
    expect(page.get_by_role("alert")).to_have_text("Another tab began this sign-in.")
    assert page.url == f"{service.url}/console/"


def test_reader_sees_everything_and_changes_nothing(
    page: Page, service: servers.RunningService, provider: OpenIdProvider, project: str
) -> None:
    member = provider.token(project=project)
    post(service, member, "orders")
    page.goto(f"{service.url}/console/#/queues/orders?tab=live")
    sign_in_with_token(page, provider.token(project=project, roles=["zaqar-reader"]))
    expect(page.locator(".tail .state")).to_have_text("live")
    post(service, member, "orders")
    expect(page.locator(".feed li")).to_have_count(1)
    page.get_by_role("link", name="Messages").click()
    expect(page.get_by_text("Your roles (reader) do not allow it: messages:create")).to_be_visible()
    expect(page.get_by_label("Data, as JSON")).to_be_disabled()
    expect(page.get_by_role("button", name="Post")).to_be_disabled()
    page.get_by_role("link", name="Subscriptions").click()
    subscribe = page.get_by_role("button", name="Subscribe")
    expect(subscribe).to_be_disabled()
    expect(subscribe).to_have_attribute("title", re.compile("subscription:create"))
    page.goto(f"{service.url}/console/#/channels/news")
    expect(page.get_by_role("button", name="Publish")).to_be_disabled()
    page.get_by_text("History", exact=True).click()
    expect(page.get_by_text("The history is empty.")).to_be_visible()
    page.goto(f"{service.url}/console/#/nodes")
    expect(page.get_by_text("do not allow it: console:installation")).to_be_visible()
    page.goto(f"{service.url}/console/#/queues")
    create = page.get_by_role("button", name="Create a queue")
    expect(create).to_be_disabled()
    expect(create).to_have_attribute("title", re.compile(r"roles \(reader\).*queues:create"))


def test_access_key_signs_in_with_its_rights(
    page: Page, service: servers.RunningService, redis_server: Backend, project: str
) -> None:
    rights = ("orders:*", "*:queues:*,channels:*,console:*")
    words = [word for right in rights for word in ("--right", right)]
    with (
        key_clients.key_operator(redis_server.uri) as operator,
        # Commands run an event loop, and Playwright's runs in this thread.
        ThreadPoolExecutor(1) as thread,
    ):
        key = thread.submit(operator.create, *words, project=project).result()
    page.goto(f"{service.url}/console/#/queues/orders?tab=messages")
    page.get_by_label("Sign in with").select_option("Access key")
    page.get_by_label("Id of the key").fill(key.id)
    page.get_by_label("Secret").fill("another")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#sign-in-problem")).to_contain_text("no access key with this id")
    page.get_by_label("Secret").fill(key.secret)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#who")).to_contain_text(re.compile("member"))
    write(page, "1", "Post")
    expect(page.locator(".publish [role=status]")).to_contain_text("Posted: ")
    page.goto(f"{service.url}/console/#/queues/others?tab=messages")
    write(page, "1", "Post")
    expect(page.locator(".publish [role=status]")).to_contain_text("for others")


def test_member_writes_in_the_own_project_only(
    page: Page, service: servers.RunningService, provider: OpenIdProvider, project: str
) -> None:
    page.goto(f"{service.url}/console/#/queues/orders?tab=messages")
    sign_in_with_token(page, "a.b.c")
    expect(page.locator("#sign-in-problem")).to_have_text("The token is not valid.")
    sign_in_with_token(page, provider.token(project=project))
    write(page, "1", "Post")
    expect(page.locator(".publish [role=status]")).to_contain_text("Posted: ")
    chosen = page.get_by_role("button", name=f"Project: {project}")
    choose_project(page, "other")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_have_text("You do not belong to the project other.")
    expect(dialog.get_by_text("The list of projects is for administrators")).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(chosen).to_be_visible()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    page.reload()
    expect(chosen).to_be_visible()


def test_address_of_another_project_is_refused_to_a_member_and_shows_nothing_of_the_own_one(
    page: Page, service: servers.RunningService, provider: OpenIdProvider, project: str
) -> None:
    page.goto(f"{service.url}/console/#/queues/orders")
    sign_in_with_token(page, provider.token(project=project))
    expect(page.get_by_role("button", name=f"Project: {project}")).to_be_visible()
    page.goto(f"{service.url}/console/#/queues/orders?project=other")
    expect(page.get_by_text("You do not belong to the project other.")).to_be_visible()
    expect(page.get_by_role("heading", name="orders")).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    page.goto(f"{service.url}/console/#/queues/orders?project=%20{project}%20")
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    assert page.url.endswith(f"?project={project}")


def test_member_who_signs_in_at_an_address_of_another_project_gets_to_the_own_one(
    page: Page, service: servers.RunningService, provider: OpenIdProvider, project: str
) -> None:
    page.goto(f"{service.url}/console/#/queues?project=other")
    token = provider.token(project=project)
    sign_in_with_token(page, token)
    expect(page.locator("#sign-in-problem")).to_have_text("You do not belong to the project other.")
    sign_in_with_token(page, token)
    expect(page.get_by_role("button", name=f"Project: {project}")).to_be_visible()


def test_page_connects_to_itself_and_the_provider_only(
    service: servers.RunningService, provider: OpenIdProvider
) -> None:
    policy = httpx.get(f"{service.url}/console/").headers["Content-Security-Policy"]
    assert re.search(r"connect-src ([^;]*);", policy)[1] == f"'self' {provider.issuer}"  # type: ignore[index]
    about = httpx.get(f"{service.url}/console/about").json()
    assert about["logins"] == ["openid", "key", "jwt"]
    assert about["openid"] == {"issuer": provider.issuer, "client_id": openid.CLIENT_ID}
    refused = httpx.get(f"{service.url}/console/session")
    assert (refused.status_code, refused.json()["title"]) == (401, "Unauthorized")


def test_access_keys_are_created_shown_once_disabled_and_deleted(
    page: Page, service: servers.RunningService, provider: OpenIdProvider, project: str
) -> None:
    def status(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}", "Client-ID": str(uuid.uuid4())}
        return httpx.get(f"{service.url}/v2/queues", headers=headers).status_code

    def press(name: str) -> None:
        page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()

    def secret() -> str:
        shown = page.get_by_role("dialog").locator("dd").last.inner_text()
        press("Close")
        expect(page.locator("dialog")).to_have_count(0)
        return shown

    admin = provider.token(project=project, roles=["zaqar-admin"])
    page.goto(f"{service.url}/console/#/access/keys")
    sign_in_with_token(page, admin)
    page.get_by_role("button", name="Create a key").click()
    page.get_by_role("dialog").get_by_label("User").fill("billing <b>")
    page.get_by_label("Role").select_option("reader")
    page.get_by_label("Days until it expires").fill("30")
    press("Create")
    token = secret()
    assert status(token) == 200
    key_id, _, plain = token.partition(".")
    assert plain not in page.content()
    row = page.get_by_role("row").filter(has=page.get_by_title(key_id))
    expect(row).to_contain_text("billing <b>")
    expect(row).to_contain_text("reader")
    row.get_by_role("button", name="New secret").click()
    press("Make it")
    newer = secret()
    servers.wait_for(lambda: status(token) == 401, "the old secret to be refused")
    assert status(newer) == 200
    row.get_by_role("button", name="Disable").click()
    press("Disable")
    expect(row).to_contain_text("disabled")
    servers.wait_for(lambda: status(newer) == 401, "the disabled key to be refused")
    row.get_by_role("button", name="Enable").click()
    expect(row).to_contain_text("in use")
    # A key of another project is none of this one's.
    headers = {"Authorization": f"Bearer {admin}", "X-Project-ID": "another"}
    refused = httpx.delete(f"{service.url}/console/keys/{key_id}", headers=headers)
    assert refused.status_code == 404
    row.get_by_role("button", name="Delete").click()
    press("Delete")
    expect(page.get_by_text("The project has no access keys.")).to_be_visible()
    servers.wait_for(lambda: status(newer) == 401, "the deleted key to be refused")


def test_keys_are_given_by_those_only_who_may_as_much(
    service: servers.RunningService, redis_server: Backend, project: str
) -> None:
    with key_clients.key_operator(redis_server.uri) as operator, ThreadPoolExecutor(1) as thread:
        words = ("--role", "admin", "--right", "*:*")
        restricted = thread.submit(operator.create, *words, project=project).result()
        member = thread.submit(operator.create, project=project).result()
    for key, why in ((restricted, "more than they may do"), (member, "keys:create")):
        headers = {"Authorization": f"Bearer {key.id}.{key.secret}"}
        asked = {"user": "x", "role": "reader"}
        refused = httpx.post(f"{service.url}/console/keys", headers=headers, json=asked)
        assert refused.status_code == 403
        assert why in refused.json()["description"]
