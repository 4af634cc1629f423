# SPDX-License-Identifier: Apache-2.0
"""Services that authenticate by access keys, their keys, and clients that use them."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from http_message_signatures import HTTPMessageSigner, MappingKeyResolver
from http_message_signatures.algorithms import HMAC_SHA256

from tests.support import servers
from tests.support.command_line import CommandLine

OPTIONS: dict[str, dict[str, object]] = {
    "auth": {"strategy": "key", "seal_key": "a seal key for tests"},
    "signed_url": {"secret_key": "a signing key for tests"},
}
CLIENT = str(uuid.uuid4())
MESSAGES: dict[str, Any] = {"messages": [{"body": 1, "ttl": 300}]}
#: What a signature must cover of every request.
COVERED = ("@method", "@path", "@query")


class IssuedKey:
    """An access key as its owner knows it."""

    def __init__(self, shown: Mapping[str, Any]) -> None:
        self.id: str = shown["id"]
        self.secret: str = shown["secret"]
        self.project: str = shown["project"]

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.id}.{self.secret}"}

    @property
    def basic(self) -> tuple[str, str]:
        return self.id, self.secret


class KeyOperator(CommandLine):
    """``zaqar-redis key`` on the store of a service."""

    def create(self, *words: str, project: str) -> IssuedKey:
        return IssuedKey(self.shown("key", "create", "a program", "--project", project, *words))

    def rotate(self, key: IssuedKey) -> IssuedKey:
        return IssuedKey(self.shown("key", "rotate", key.id))


@contextlib.contextmanager
def key_operator(uri: str) -> Iterator[KeyOperator]:
    with tempfile.TemporaryDirectory(prefix="zr-keys-") as folder:
        text = f"[auth]\nseal_key = {OPTIONS['auth']['seal_key']}\n"
        config = servers.config_file(Path(folder), text)
        yield KeyOperator(["--storage", uri, "--config-file", config])


class KeyClient:
    """Requests over one connection, and so to one worker, each on the same way."""

    def __init__(self, service: servers.RunningService, way: Mapping[str, str]) -> None:
        self.url = service.url
        self._http = httpx.Client(
            base_url=service.url,
            headers={"Client-ID": CLIENT, **way},
            limits=httpx.Limits(max_connections=1),
            timeout=60,
        )

    def close(self) -> None:
        self._http.close()

    def request(self, method: str, path: str, key: IssuedKey | None, **more: Any) -> httpx.Response:
        headers = (key.bearer if key else {}) | more.pop("headers", {})
        return self._http.request(method, path, headers=headers, **more)

    def post(self, key: IssuedKey | None, queue: str = "q", **more: Any) -> httpx.Response:
        path = f"/v2/queues/{queue}/messages"
        return self.request("POST", path, key, **{"json": MESSAGES} | more)

    def list(self, key: IssuedKey | None, queue: str = "q", **more: Any) -> httpx.Response:
        return self.request("GET", f"/v2/queues/{queue}/messages", key, **more)

    def build(self, method: str, path: str, **more: Any) -> httpx.Request:
        """Returns a request that was not sent."""
        return self._http.build_request(method, path, **more)

    def send(self, request: httpx.Request) -> httpx.Response:
        return self._http.send(request)

    def worker(self) -> str:
        """Returns what names the process that answers."""
        answer = self._http.get("/")
        return answer.headers["x-openstack-request-id"][:22]


def sign(
    request: httpx.Request,
    key: IssuedKey,
    covered: Sequence[str] = COVERED,
    age: float = 0,
    *,
    with_digest: bool = True,
) -> httpx.Request:
    """Signs a request as it was *age* seconds ago; returns it."""
    secret = key.secret.encode()
    signer = HTTPMessageSigner(
        signature_algorithm=HMAC_SHA256,
        key_resolver=MappingKeyResolver(public_keys={}, private_keys={key.id: secret}),
    )
    signer.sign(
        request,
        key_id=key.id,
        created=datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age),
        covered_component_ids=covered,
        body=(request.content or None) if with_digest else None,
    )
    return request
