# SPDX-License-Identifier: Apache-2.0
"""Access keys as credentials of requests, over real services."""

from __future__ import annotations

import base64
import contextlib
import signal
import time
import uuid
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.auth.key_clients import (
    COVERED,
    MESSAGES,
    OPTIONS,
    IssuedKey,
    KeyClient,
    KeyOperator,
    key_operator,
    sign,
)
from tests.support import fixtures, servers
from tests.support.backends import Backend
from tests.support.clock import running_clock
from tests.support.tiers import in_gate
from tests.support.ways import HOT, WAYS
from tests.websocket.peers import api_peer
from zaqar_redis.auth.signed_urls import UrlSigner

#: Seconds after which a change of a key counts in every worker.
_PROMISED = 5.0


#: A service of one worker, so that its state is that of the tests.
guarded = fixtures.service(OPTIONS)


@pytest.fixture(scope="module")
def operator(redis_server: Backend) -> Iterator[KeyOperator]:
    with key_operator(redis_server.uri) as commands:
        yield commands


@pytest.fixture(params=in_gate(WAYS))
def client(request: pytest.FixtureRequest, guarded: servers.RunningService) -> Iterator[KeyClient]:
    with contextlib.closing(KeyClient(guarded, WAYS[request.param])) as client:
        yield client


@pytest.fixture
def on_fast_path(guarded: servers.RunningService) -> Iterator[KeyClient]:
    """A client for what does not depend on the way of a request."""
    with contextlib.closing(KeyClient(guarded, WAYS[HOT])) as client:
        yield client


@pytest.fixture(scope="module")
def member(operator: KeyOperator) -> IssuedKey:
    """The key of a member of a project."""
    return operator.create(project=f"project-{uuid.uuid4()}")


def refusal(answer: httpx.Response) -> str:
    """Returns the text of a 401."""
    assert answer.status_code == 401, answer.text
    assert answer.headers["www-authenticate"].startswith("Bearer")
    return str(answer.json()["description"])


def test_bearer_and_basic_are_accepted_for_the_project_of_the_key(
    client: KeyClient, member: IssuedKey
) -> None:
    assert client.post(member).status_code == 201
    assert client.post(None, auth=member.basic).status_code == 201
    named = {"X-Project-ID": member.project}
    assert len(client.list(member, headers=named).json()["messages"]) == 0  # its own
    echoed = client.list(member, params={"echo": "true"}, headers=named).json()["messages"]
    assert len(echoed) >= 2


def test_subscriber_confirms_by_a_signature_without_a_key(
    on_fast_path: KeyClient, member: IssuedKey
) -> None:
    collection, given = "/v2/queues/q/subscriptions", {"subscriber": "mailto:a@example.org"}
    created = on_fast_path.request("POST", collection, member, json=given)
    subscription = f"{collection}/{created.json()['subscription_id']}"
    path = f"{subscription}/confirm"
    signer = UrlSigner(str(OPTIONS["signed_url"]["secret_key"]))
    signed = signer.sign(member.project, path, "PUT", 600)
    headers = {
        "URL-Signature": signed.signature,
        "URL-Expires": signed.expires,
        "URL-Methods": "PUT",
        "URL-Paths": path,
        "X-Project-ID": member.project,
    }
    yes = {"confirmed": True}
    assert on_fast_path.request("PUT", path, None, json=yes).status_code == 401
    answer = on_fast_path.request("PUT", path, None, json=yes, headers=headers)
    assert answer.status_code == 204, answer.text
    assert on_fast_path.request("GET", subscription, member).json()["confirmed"] is True
    assert on_fast_path.request("GET", subscription, None, headers=headers).status_code == 404


def test_schemes_are_read_in_any_case(client: KeyClient, member: IssuedKey) -> None:
    basic = base64.b64encode(f"{member.id}:{member.secret}".encode()).decode()
    for value in (f"bEARER  {member.id}.{member.secret}", f"BASIC {basic}"):
        assert client.list(None, headers={"Authorization": value}).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        *("Bearer zk_{id}.{secret}x", "Bearer zk_{id}.", "Bearer zk_{id}"),
        *("Bearer zk_{id}:{secret}", "Bearer zk_00000000000000000000.{secret}"),
        *("Bearer zk_{id}.{secret} more", "Bearer zk_{id}.\xff\x80", "Bearer {id}.{secret}"),
        *("Basic emtf!!", "Basic emtf", "Basic zk_{id}:{secret}", "Digest zk_{id}.{secret}"),
        *("zk_{id}.{secret}", ""),
    ],
)
def test_malformed_and_wrong_credentials_are_refused(
    client: KeyClient, member: IssuedKey, wrong: str
) -> None:
    value = wrong.format(id=member.id.removeprefix("zk_"), secret=member.secret)
    answer = client.list(None, headers={"Authorization": value.encode("latin-1")})
    assert member.secret not in refusal(answer)


def test_unknown_id_and_wrong_secret_are_answered_alike(
    client: KeyClient, operator: KeyOperator
) -> None:
    key = operator.create(project="p")
    texts = []
    for each in (key.id, "zk_ffffffffffffffffffff"):
        headers = {"Authorization": f"Bearer {each}.{'x' * 43}"}
        texts.append(refusal(client.list(None, headers=headers)))
    assert texts[0] == texts[1]


def test_identity_headers_from_outside_are_ignored(client: KeyClient, member: IssuedKey) -> None:
    forged = {"X-Roles": "admin", "X-User-Id": "root", "X-Is-Admin-Project": "True"}
    assert client.request("GET", "/v2/pools", member, headers=forged).status_code == 403
    assert client.list(None, headers=forged).status_code == 401


def test_foreign_project_is_for_administrators_only(
    client: KeyClient, operator: KeyOperator, project: str, member: IssuedKey
) -> None:
    foreign = {"X-Project-ID": project}
    assert client.post(member, headers=foreign).status_code == 403
    assert client.list(member, headers=foreign).status_code == 403
    admin = operator.create("--role", "admin", project="operators")
    assert client.post(admin, headers=foreign).status_code == 201
    assert client.request("GET", "/v2/pools", admin).status_code == 200
    assert client.request("GET", "/v2/pools", member).status_code == 403


def test_read_only_key_reads_and_does_not_write(
    client: KeyClient, operator: KeyOperator, member: IssuedKey
) -> None:
    reader = operator.create("--read-only", project=member.project)
    assert client.post(member).status_code == 201
    assert client.list(reader).status_code == 200
    assert client.request("GET", "/v2/queues", reader).status_code == 200
    assert client.post(reader).status_code == 403
    assert client.request("PUT", "/v2/queues/another", reader).status_code == 403
    assert client.request("DELETE", "/v2/queues/q", reader).status_code == 403


def test_rights_restrict_queues_and_actions(
    client: KeyClient, operator: KeyOperator, project: str
) -> None:
    right = "orders-*:messages:create,messages:get*"
    key = operator.create("--right", right, "--right", "log:claims:*", project=project)
    assert client.post(key, "orders-7").status_code == 201
    assert client.list(key, "orders-7").status_code == 200
    claim = "/v2/queues/{}/claims"
    assert client.request("POST", claim.format("log"), key).status_code in (201, 204)
    for answer in (
        client.post(key, "orders"),
        client.post(key, "log"),
        client.request("POST", claim.format("orders-7"), key),
        client.request("DELETE", "/v2/queues/orders-7", key),
        client.post(key, "orders-7", headers={"X-Project-ID": f"{project}-x"}),
    ):
        assert answer.status_code == 403
        assert answer.json()["title"] == "Not authorized"


def test_rights_for_topics_and_queues_are_separate(
    client: KeyClient, operator: KeyOperator, project: str
) -> None:
    of_topics, of_queues, of_all = (
        operator.create("--right", f"{pattern}:messages:*", project=project)
        for pattern in ("topic:*orders", "t*orders", "*")
    )
    for key, status_of_topic, status_of_queue in (
        (of_topics, 201, 403),
        (of_queues, 403, 201),
        (of_all, 201, 201),
    ):
        for kind, status in (("topics", status_of_topic), ("queues", status_of_queue)):
            path = f"/v2/{kind}/the-orders/messages"
            assert client.request("POST", path, key, json=MESSAGES).status_code == status


def test_statistics_are_listed_only_for_who_may_read_them(
    client: KeyClient, operator: KeyOperator, project: str
) -> None:
    names, figures = (
        operator.create("--right", f"*:{actions}", project=project)
        for actions in ("queues:get_all", "queues:get_all,queues:stats")
    )
    for key, status in ((names, 403), (figures, 200)):
        assert client.request("GET", "/v2/queues", key).status_code == 200
        listed = client.request("GET", "/v2/queues?with_stats=true", key)
        assert listed.status_code == status


def test_key_cannot_sign_urls_for_more_than_its_rights(
    client: KeyClient, operator: KeyOperator
) -> None:
    key = operator.create(
        *("--right", "orders:queues:share", "--right", "orders:messages:get*"),
        project=f"project-{uuid.uuid4()}",
    )

    def share(**wanted: list[str]) -> int:
        return client.request("POST", "/v2/queues/orders/share", key, json=wanted).status_code

    assert share(methods=["GET"], paths=["messages"]) == 200
    assert share(methods=["GET", "POST"], paths=["messages"]) == 403
    assert share(methods=["GET"], paths=["messages", "claims"]) == 403
    assert share(methods=["DELETE"]) == 403


def test_dead_letters_go_only_where_the_key_may_post(
    client: KeyClient, operator: KeyOperator
) -> None:
    key = operator.create("--right", "orders-*:*", project=f"project-{uuid.uuid4()}")
    queue = f"/v2/queues/orders-{uuid.uuid4().hex}"

    def put(target: str) -> int:
        document = {"_dead_letter_queue": target, "_max_claim_count": 1}
        return client.request("PUT", queue, key, json=document).status_code

    def patch(target: str) -> int:
        change = {"op": "add", "path": "/metadata/_dead_letter_queue", "value": target}
        kind = {"Content-Type": "application/openstack-messaging-v2.0-json-patch"}
        return client.request("PATCH", queue, key, json=[change], headers=kind).status_code

    assert [put("invoices"), put("orders-dead")] == [403, 201]
    assert [patch("invoices"), patch("orders-other")] == [403, 200]


def test_schedules_post_only_where_the_key_may_post(
    client: KeyClient, operator: KeyOperator
) -> None:
    rights = ("--right", "*:schedules:*", "--right", "orders-*:messages:create")
    key = operator.create(*rights, project=f"project-{uuid.uuid4()}")

    def put(queue: str) -> int:
        document = {"queue": queue, "cron": "@yearly", "message": {"body": 1}}
        return client.request("PUT", "/v2/schedules/yearly", key, json=document).status_code

    assert [put("invoices"), put("orders-new")] == [403, 201]


def test_schedules_of_a_socket_post_only_where_the_key_may_post(
    guarded: servers.RunningService, operator: KeyOperator
) -> None:
    rights = ("--right", "*:schedules:*", "--right", "orders-*:messages:create")
    key = operator.create(*rights, project=(project := f"project-{uuid.uuid4()}"))
    others = operator.create("--right", "orders-*:*", project=project)

    def statuses(of: IssuedKey) -> list[int]:
        with api_peer(guarded, project) as peer:
            assert peer.ask("authenticate", of.bearer).status == 200
            given = {"schedule_name": "yearly", "cron": "@yearly", "message": {"body": 1}}
            asked = [
                peer.ask("schedule_create", queue=queue, **given)
                for queue in ("invoices", "orders-new")
            ]
            asked.append(peer.ask("schedule_list"))
            return [answer.status for answer in asked]

    assert statuses(key) == [403, 201, 200]
    assert statuses(others) == [403, 403, 403]  # as over REST: schedules are not of a queue


def test_subscriptions_deliver_only_where_the_key_may_post(
    client: KeyClient, operator: KeyOperator
) -> None:
    key = operator.create(
        *("--right", "orders-*:*", "--right", "topic:news-*:messages:*"),
        project=f"project-{uuid.uuid4()}",
    )
    path = "/v2/queues/orders-a/subscriptions"

    def subscribe(subscriber: str, **options: str) -> int:
        document = {"subscriber": subscriber, "options": options}
        return client.request("POST", path, key, json=document).status_code

    assert [subscribe("queue:invoices"), subscribe("queue:orders-b")] == [403, 201]
    assert [subscribe("topic:orders-b"), subscribe("topic:news-b")] == [403, 201]
    assert subscribe("channel:prices") == 403
    letters = "https://example.org/"
    assert subscribe(letters, dead_letter_queue="invoices") == 403
    created = client.request("POST", path, key, json={"subscriber": letters})
    changed = f"{path}/{created.json()['subscription_id']}"

    def change(**fields: object) -> int:
        return client.request("PATCH", changed, key, json=fields).status_code

    assert [change(subscriber="queue:invoices"), change(subscriber="queue:orders-c")] == [403, 204]
    assert change(options={"dead_letter_queue": "invoices"}) == 403
    assert change(options={"dead_letter_queue": "orders-dead"}) == 204


def test_messages_move_only_to_where_the_key_may_post(
    client: KeyClient, operator: KeyOperator
) -> None:
    key = operator.create("--right", "orders-*:*", project=f"project-{uuid.uuid4()}")
    for name in ("orders-a", "orders-b"):
        assert client.request("PUT", f"/v2/queues/{name}", key).status_code == 201

    def move(source: str, **target: str) -> int:
        path, document = f"/v2/queues/{source}/move", {"limit": 1, **target}
        return client.request("POST", path, key, json=document).status_code

    assert move("orders-a", queue="orders-b") == 200
    assert move("orders-a", queue="invoices") == 403
    assert move("invoices", queue="orders-a") == 403
    assert move("orders-a") == 403  # it may be any queue that dead letters go back to


def test_figures_of_channels_are_shown_where_the_key_may_list_them(
    client: KeyClient, operator: KeyOperator
) -> None:
    project = f"project-{uuid.uuid4()}"
    key = operator.create("--right", "orders-*:channels:channels", project=project)

    def listed(**query: str) -> int:
        return client.request("GET", "/console/channels", key, params=query).status_code

    assert [listed(channel=name) for name in ("orders-a", "queue:orders-a")] == [200, 200]
    assert [listed(channel="invoices"), listed(pattern="orders-a"), listed()] == [403, 403, 403]


def test_request_with_two_credentials_is_refused(
    client: KeyClient, operator: KeyOperator, member: IssuedKey
) -> None:
    other = operator.create(project=f"project-{uuid.uuid4()}")
    both = [("Authorization", each.bearer["Authorization"]) for each in (member, other)]
    answer = httpx.get(
        f"{client.url}/v2/queues/q/messages",
        headers=[("Client-ID", str(uuid.uuid4())), *both],
        timeout=30,
    )
    assert answer.status_code == 400
    signature = {"Signature-Input": 'sig=("@method");keyid="zk_x"', "Signature": "sig=:AA==:"}
    assert "send one of them" in refusal(client.list(member, headers=signature))


def test_expired_key_is_refused(on_fast_path: KeyClient, operator: KeyOperator) -> None:
    key = operator.create("--expires", "1s", project="p")
    answers: list[httpx.Response] = []

    def refused() -> bool:
        answers.append(on_fast_path.list(key))
        return answers[-1].status_code == 401

    servers.wait_for(refused, "the key to expire")
    assert "expired" in refusal(answers[-1])


def test_disabled_key_works_again_when_enabled(
    on_fast_path: KeyClient, operator: KeyOperator
) -> None:
    key = operator.create(project="p")
    operator.done("key", "disable", key.id)
    assert "disabled" in refusal(on_fast_path.list(key))
    wrong = {"Authorization": f"Bearer {key.id}.x"}
    assert "disabled" not in refusal(on_fast_path.list(None, headers=wrong))
    operator.done("key", "enable", key.id)
    assert on_fast_path.list(key).status_code == 200


def test_last_use_is_noted(on_fast_path: KeyClient, operator: KeyOperator) -> None:
    key = operator.create(project="p")
    assert operator.shown("key", "show", key.id)["last_used"] is None
    assert on_fast_path.list(key).status_code == 200
    servers.wait_for(
        lambda: operator.shown("key", "show", key.id)["last_used"] is not None, "the last use"
    )


def guess(client: KeyClient, key: IssuedKey) -> None:
    """Tries ten wrong secrets."""
    for number in range(10):
        headers = {"Authorization": f"Bearer {key.id}.guess-{number}"}
        refusal(client.list(None, headers=headers))


def _refused_key(
    client: KeyClient, operator: KeyOperator
) -> tuple[IssuedKey, list[httpx.Response]]:
    """Returns a key after wrong guesses, and how its user is answered while it is refused."""
    for _ in range(20):
        key = operator.create(project="p")
        begun = time.monotonic()
        guess(client, key)
        answers = [client.list(key), client.send(signed_post(client, key))]
        # On a busy machine the second for which it is refused may be over by now.
        if time.monotonic() - begun < 1 or all(each.status_code == 429 for each in answers):
            return key, answers
    raise TimeoutError("the requests take more than a second")


def test_guessing_is_refused_for_a_while_and_logged(
    on_fast_path: KeyClient, operator: KeyOperator, guarded: servers.RunningService
) -> None:
    key, answers = _refused_key(on_fast_path, operator)
    for refused in answers:
        assert refused.status_code == 429
        assert "too many failed attempts" in refused.json()["description"]
        assert int(refused.headers["Retry-After"]) >= 1
    servers.wait_for(lambda: on_fast_path.list(key).status_code == 200, "the end of the refusal")
    log = guarded.log.read_text()
    assert f"failed attempt 10 to use the access key {key.id}" in log
    assert key.secret not in log
    assert "guess-" not in log


def test_rotated_key_has_the_new_secret_only_and_others_cannot_stop_its_user(
    on_fast_path: KeyClient, operator: KeyOperator
) -> None:
    used, key = operator.create(project="p"), operator.create(project="p")
    assert on_fast_path.list(used).status_code == 200
    assert on_fast_path.list(key).status_code == 200
    new = operator.rotate(key)
    assert (new.id, new.project) == (key.id, key.project)
    assert on_fast_path.list(new).status_code == 200
    servers.wait_for(lambda: on_fast_path.list(key).status_code == 401, "the old one to be refused")
    assert on_fast_path.list(new).status_code == 200
    # By now the worker has to ask for the other key again, too.
    guess(on_fast_path, used)
    assert on_fast_path.list(used).status_code == 200


def _changed_body(client: KeyClient, request: httpx.Request) -> None:
    body = request.content.replace(b"1", b"2")
    other = client.build(request.method, request.url.path, content=body)
    request.stream = other.stream


def _changed_query(client: KeyClient, request: httpx.Request) -> None:
    request.url = request.url.copy_with(query=b"limit=2")


def _changed_path(client: KeyClient, request: httpx.Request) -> None:
    request.url = request.url.copy_with(path="/v2/queues/another/messages")


def _changed_method(client: KeyClient, request: httpx.Request) -> None:
    request.method = "DELETE"


def _added_project(client: KeyClient, request: httpx.Request) -> None:
    request.headers["X-Project-ID"] = "p"


def _without_digest(client: KeyClient, request: httpx.Request) -> None:
    del request.headers["Content-Digest"]


def _other_signature(client: KeyClient, request: httpx.Request) -> None:
    signature = base64.b64encode(bytes(32)).decode()
    request.headers["Signature"] = f"pyhms=:{signature}:"


def _two_signatures(client: KeyClient, request: httpx.Request) -> None:
    for name in ("Signature", "Signature-Input"):
        value = request.headers[name]
        request.headers[name] = f"{value}, {value.replace('pyhms', 'b')}"


def _garbage(client: KeyClient, request: httpx.Request) -> None:
    request.headers["Signature-Input"] += '"'


TAMPERING: tuple[Callable[[KeyClient, httpx.Request], None], ...] = (
    *(_changed_body, _changed_query, _changed_path, _changed_method, _added_project),
    *(_without_digest, _other_signature, _two_signatures, _garbage),
)


def signed_post(client: KeyClient, key: IssuedKey, **more: object) -> httpx.Request:
    request = client.build("POST", "/v2/queues/signed/messages?", json=MESSAGES)
    return sign(request, key, **more)  # type: ignore[arg-type]


def test_signed_requests_are_accepted(client: KeyClient, member: IssuedKey) -> None:
    assert client.send(signed_post(client, member)).status_code == 201
    listing = client.build("GET", "/v2/queues/signed/messages?echo=true&limit=3")
    assert len(client.send(sign(listing, member)).json()["messages"]) >= 1
    path = "/v2/queues/signed%2D2"  # a path that is not as its decoded form
    assert client.send(sign(client.build("PUT", path), member)).is_success
    own = client.build("GET", "/v2/queues", headers={"X-Project-ID": member.project})
    assert client.send(sign(own, member, (*COVERED, "x-project-id"))).status_code == 200


@pytest.mark.parametrize("tamper", TAMPERING)
def test_signed_request_that_was_changed_is_refused(
    client: KeyClient, operator: KeyOperator, tamper: Callable[[KeyClient, httpx.Request], None]
) -> None:
    request = signed_post(client, operator.create(project="p"))
    tamper(client, request)
    refusal(client.send(request))


@pytest.mark.parametrize("left_out", COVERED)
def test_signature_must_cover_what_is_requested(
    client: KeyClient, operator: KeyOperator, left_out: str
) -> None:
    covered = [each for each in COVERED if each != left_out]
    request = signed_post(client, operator.create(project="p"), covered=covered)
    assert left_out in refusal(client.send(request))


def test_signature_must_cover_the_body(client: KeyClient, operator: KeyOperator) -> None:
    request = signed_post(client, operator.create(project="p"), with_digest=False)
    assert "Content-Digest" in refusal(client.send(request))
    deletion = client.build("DELETE", "/v2/queues/q/messages?ids=x", content=b"1")  # of no use
    refusal(client.send(sign(deletion, operator.create(project="p"), with_digest=False)))


@pytest.mark.parametrize("age", [600, -600])
def test_signature_is_valid_for_minutes_only(
    client: KeyClient, operator: KeyOperator, age: int
) -> None:
    refusal(client.send(signed_post(client, operator.create(project="p"), age=age)))


def test_signature_of_another_or_disabled_key_is_refused(
    client: KeyClient, operator: KeyOperator
) -> None:
    key, unknown = operator.create(project="p"), operator.create(project="p")
    operator.done("key", "delete", unknown.id, "--yes")
    refusal(client.send(signed_post(client, unknown)))
    wrong = IssuedKey({"id": key.id, "secret": unknown.secret, "project": "p"})
    refusal(client.send(signed_post(client, wrong)))
    assert client.send(signed_post(client, key)).status_code == 201
    operator.done("key", "disable", key.id)
    assert "disabled" in refusal(client.send(signed_post(client, key)))


def test_key_that_was_changed_in_the_store_is_refused(
    on_fast_path: KeyClient,
    operator: KeyOperator,
    redis_server: Backend,
    guarded: servers.RunningService,
) -> None:
    key = operator.create(project="p")
    admin = operator.create("--role", "admin", project="p")
    with redis_server.client() as client:
        place, other = (f"zr:{{control}}:access_key:{each.id}" for each in (key, admin))
        client.hset(place, "grants", client.hget(other, "grants"))
    refusal(on_fast_path.list(key))
    refusal(on_fast_path.send(signed_post(on_fast_path, key)))

    def is_logged() -> bool:  # once lines of other tests no longer use up those of a second
        on_fast_path.list(key)
        return f"the access key {key.id} cannot be used" in guarded.log.read_text()

    servers.wait_for(is_logged, "the line in the log")


def test_unavailable_store_of_keys_is_no_wrong_key(redis_server: Backend) -> None:
    with servers.redis_server() as control, key_operator(control.uri) as operator:
        key = operator.create(project="p")
        options = OPTIONS | {"DEFAULT": {"pooling": False}, "storage": {"control_uri": control.uri}}
        with (
            servers.service(redis_server.uri, options=options) as service,
            contextlib.closing(KeyClient(service, WAYS[HOT])) as client,
        ):
            assert client.list(key).status_code == 200
            control.signal(signal.SIGKILL)
            answers: list[httpx.Response] = []

            def failed() -> bool:
                answers.append(client.list(key))
                return answers[-1].status_code != 200

            servers.wait_for(failed, "the key to be read again")
            assert answers[-1].status_code == 503
            assert client.send(signed_post(client, key)).status_code == 503


two_workers = fixtures.service(OPTIONS, workers=2)


def clients_of_each_worker(
    service: servers.RunningService, stack: contextlib.ExitStack
) -> list[KeyClient]:
    found: dict[str, KeyClient] = {}

    def complete() -> bool:
        way = list(WAYS.values())[len(found) % 2]
        client = stack.enter_context(contextlib.closing(KeyClient(service, way)))
        found.setdefault(client.worker(), client)
        return len(found) == 2

    servers.wait_for(complete, "connections to both workers")
    return list(found.values())


def test_withdrawn_keys_are_refused_by_every_worker_within_five_seconds(
    two_workers: servers.RunningService, operator: KeyOperator
) -> None:
    keys = [operator.create(project="p") for _ in range(3)]
    with contextlib.ExitStack() as stack:
        clock = stack.enter_context(running_clock())
        clients = clients_of_each_worker(two_workers, stack)
        uses = [(client, key) for client in clients for key in keys]
        assert [client.list(key).status_code for client, key in uses] == [200] * 6
        operator.done("key", "disable", keys[0].id)
        operator.done("key", "delete", keys[1].id, "--yes")
        operator.rotate(keys[2])
        withdrawn = clock()
        while uses:
            begun = clock()
            uses = [use for use in uses if use[0].list(use[1]).status_code != 401]
            # Whatever began later than promised was refused.
            assert not uses or begun - withdrawn < _PROMISED
