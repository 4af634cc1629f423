# SPDX-License-Identifier: Apache-2.0
"""python-openstackclient and openstacksdk beside a real Keystone."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from openstack import connection, exceptions
from openstack.message.v2 import claim as claims

from tests.support import servers
from tests.support.keystone import PASSWORD, REGION, USERS, RunningKeystone
from tests.support.tiers import in_gate

#: The SDK emits deprecation warnings of its own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]

#: How a user signs in: keystoneauth's names of it.
_WAYS = ("password", "token", "v3applicationcredential")


def _credentials(keystone: RunningKeystone, user: str, way: str) -> dict[str, str]:
    """Returns what keystoneauth wants for it."""
    project = {"project_id": keystone.projects[USERS[user][0]]}
    if way == "password":
        named = {"username": user, "password": PASSWORD, "user_domain_id": "default"}
        return named | project
    if way == "token":
        return {"token": keystone.token(user)} | project
    made = keystone.create_application_credential(user)
    return {f"application_credential_{name}": made[name] for name in ("id", "secret")}


@pytest.fixture(params=_WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect(
    keystone: RunningKeystone, beside: servers.RunningService
) -> Iterator[Callable[..., connection.Connection]]:
    """A function that connects the SDK; it finds the service in the catalogue."""
    opened = []

    def connect(user: str, way: str = "password") -> connection.Connection:
        auth = _credentials(keystone, user, way) | {"auth_url": keystone.url}
        opened.append(connection.Connection(auth=auth, auth_type=way, region_name=REGION))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def test_sdk_drives_queues_messages_claims_pools_and_flavors(
    connect: Callable[..., connection.Connection],
    pool_store: servers.RedisServer,
    queue: str,
    way: str,
) -> None:
    cloud = connect("operator", way).message
    pool, flavor = f"/pools/{queue}", f"/flavors/{queue}"
    headers = {"Client-ID": str(uuid.uuid4())}
    stored = {"uri": pool_store.uri, "weight": 100}
    assert cloud.put(pool, json=stored, headers=headers).status_code == 201
    document = {"pool_list": [queue]}
    assert cloud.put(flavor, json=document, headers=headers).status_code == 201

    cloud.create_queue(name=queue, _flavor=queue)
    assert queue in [each.name for each in cloud.queues()]
    (href,) = cloud.post_message(queue, [{"body": "posted", "ttl": 300}])
    id = href.rsplit("/", 1)[1]
    assert cloud.get_message(queue, id).body == "posted"
    claim = claims.Claim.new(queue_name=queue, ttl=60, grace=60).create(cloud)
    cloud.delete_message(queue, id, claim.id)
    assert list(cloud.messages(queue, include_claimed=True)) == []
    cloud.delete_queue(queue)
    for path in (flavor, pool):
        assert cloud.delete(path, headers=headers).status_code == 204


def test_sdk_is_refused_what_its_roles_and_its_project_do_not_allow(
    connect: Callable[..., connection.Connection], queue: str
) -> None:
    member, reader, stranger = (connect(user).message for user in ("member", "reader", "stranger"))
    member.create_queue(name=queue)
    (href,) = member.post_message(queue, [{"body": "posted", "ttl": 300}])
    assert [each.body for each in reader.messages(queue)] == ["posted"]
    with pytest.raises(exceptions.ForbiddenException):
        reader.create_queue(name=f"{queue}-2")
    with pytest.raises(exceptions.NotFoundException):
        stranger.get_message(queue, href.rsplit("/", 1)[1])
    assert queue not in [each.name for each in stranger.queues()]


@pytest.fixture
def openstack(keystone: RunningKeystone, beside: servers.RunningService) -> Callable[..., str]:
    """A function that runs ``openstack`` and returns what it prints, errors included."""

    def run(user: str, *words: str, lines: str = "", way: str = "password") -> str:
        given = _credentials(keystone, user, way) | {"auth_url": keystone.url, "auth_type": way}
        given |= {"region_name": REGION, "message_client_id": str(uuid.uuid4())}
        environment = {f"OS_{name.upper()}": value for name, value in given.items()}
        return _run([str(Path(sys.executable).with_name("openstack")), *words], environment, lines)

    return run


def _run(command: list[str], environment: Mapping[str, str], lines: str) -> str:
    done = subprocess.run(
        command,
        env=os.environ | environment,
        input=lines,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


@pytest.mark.nightly  # it starts the command 20 times; the gate signs in by it
def test_openstack_drives_queues_messages_claims_pools_and_flavors(
    openstack: Callable[..., str], pool_store: servers.RedisServer, queue: str
) -> None:
    pool = f"pool-{queue}"
    made = openstack(
        "operator",
        lines=f"messaging pool create {pool} {pool_store.uri} 100\n"
        f"messaging flavor create flavor-{queue} --pool_list {pool}\n"
        f"messaging queue create {queue}\nmessaging queue list\n"
        "messaging pool list\nmessaging flavor list\nmessaging ping\n",
    )
    assert made.count(pool) >= 3
    assert made.count(f"flavor-{queue}") >= 2
    assert "Pingable | True" in made
    messages = '[{"body": "first", "ttl": 300}, {"body": "second", "ttl": 300}]'
    assert openstack("member", "messaging", "message", "post", queue, messages) == ""
    used = openstack(
        "member",
        lines=f"messaging message list {queue}\n"
        f"messaging claim create {queue} --ttl 300 --grace 60 --limit 1\n"
        f"messaging queue stats {queue}\n",
    )
    assert used.count("| first ") == 2
    assert used.count("| second ") == 1
    assert "'claimed': 1, 'free': 1, 'total': 2" in used
    removed = openstack(
        "operator",
        lines=f"messaging queue delete {queue}\nmessaging flavor delete flavor-{queue}\n"
        f"messaging pool delete {pool}\nmessaging queue list\nmessaging pool list\n",
    )
    assert queue not in removed


@pytest.mark.parametrize("way", in_gate(_WAYS[1:]))
def test_openstack_signs_in_by_token_and_application_credential(
    openstack: Callable[..., str], queue: str, way: str
) -> None:
    lines = f"messaging queue create {queue}\nmessaging queue list\nmessaging pool list\n"
    found = openstack("member", lines=lines, way=way)
    assert found.count(queue) == 2
    assert "Code: 403" in found
    assert "pools:get_all" in found
