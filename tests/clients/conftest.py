# SPDX-License-Identifier: Apache-2.0
"""The public clients, pointed at a service with two workers.

Any request may reach either worker, so no state that a client relies on may
be in one worker only.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from keystoneauth1 import session as keystone_session
from keystoneauth1 import token_endpoint
from openstack import connection
from openstack.config import cloud_region
from openstack.message.v2 import _proxy
from zaqarclient.queues import client as zaqarclient

from tests.support import servers
from tests.support.backends import Backend

#: For the service of the tests only.
SIGNING_KEY = "a key for the tests of the clients"


@pytest.fixture(scope="session")
def two_workers(redis_server: Backend) -> Iterator[servers.RunningService]:
    options: dict[str, dict[str, object]] = {
        "DEFAULT": {"admin_mode": True},
        "signed_url": {"secret_key": SIGNING_KEY},
    }
    with servers.service(redis_server.uri, workers=2, options=options) as running:
        servers.wait_for(lambda: len(running.workers()) == 2, "two workers")
        yield running


class MakeClient(Protocol):
    def __call__(self, options: dict[str, Any] | None = None, backend: str = "noauth") -> Any:
        """Creates a client of python-zaqarclient with a Client-ID of its own."""


@pytest.fixture
def make_client(two_workers: servers.RunningService, project: str) -> MakeClient:
    def make(options: dict[str, Any] | None = None, backend: str = "noauth") -> Any:
        auth = {"backend": backend, "options": options or {"os_project_id": project}}
        return zaqarclient.Client(two_workers.url, 2, conf={"auth_opts": auth})

    return make


@pytest.fixture
def zaqar(make_client: MakeClient) -> Any:
    return make_client()


class InProject(token_endpoint.Token):
    """keystoneauth's fixed token, for a service that takes the project from a header."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint, "not used")
        self.project = ""

    def get_project_id(self, session: keystone_session.Session) -> str:
        return self.project


@pytest.fixture(scope="session", params=["root", "v2"])
def connected(
    two_workers: servers.RunningService, request: pytest.FixtureRequest
) -> Iterator[tuple[_proxy.Proxy, InProject]]:
    """The ``message`` proxy of an SDK connection, with either endpoint configured.

    From the root URL the SDK finds the API by version discovery.
    """
    root: dict[str, Any] = {"message_endpoint_override": two_workers.url}
    given = root if request.param == "root" else {}
    auth = InProject(f"{two_workers.url}/v2")
    region = cloud_region.from_session(
        keystone_session.Session(auth=auth), name="tests", message_api_version="2", **given
    )
    with connection.Connection(config=region) as connected:
        yield connected.message, auth


@pytest.fixture
def cloud(connected: tuple[_proxy.Proxy, InProject], project: str) -> _proxy.Proxy:
    """The proxy, shared as its connection takes seconds to create, in the test's project."""
    proxy, auth = connected
    auth.project = project
    return proxy


@pytest.fixture
def queue_name() -> str:
    """A queue name without dots, as python-zaqarclient requires."""
    return f"queue-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def queue(zaqar: Any, queue_name: str) -> Any:
    """The queue of that name, which does not exist until the test creates it or posts to it."""
    return zaqar.queue(queue_name)


def bodies(messages: Any) -> list[Any]:
    return [message.body for message in messages]


Post = Callable[[int], list[str]]


@pytest.fixture
def post_from_another(make_client: MakeClient, queue_name: str) -> Post:
    """A function that posts numbered messages as another client and returns their ids."""

    def post(count: int) -> list[str]:
        answer = make_client().queue(queue_name).post([{"body": n} for n in range(count)])
        return [href.rsplit("/", 1)[1] for href in answer["resources"]]

    return post
