# SPDX-License-Identifier: Apache-2.0
"""Receivers verify webhooks with the package standardwebhooks."""

from __future__ import annotations

import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.notify.endpoints import ReceivedRequest, answer, delivery, endpoint, http_target
from zaqar_redis.notify.targets.http import signed_headers

NEW, OLD, OTHER = (f"whsec_{base64.b64encode(each * 24).decode()}" for each in (b"n", b"o", b"x"))
_BODY = b'{"\xc3\xa9": 1}'


async def _received(*secrets: str) -> ReceivedRequest:
    async with endpoint(answer(200)) as found, http_target() as target:
        await target.deliver(delivery(found.uri(), secrets=secrets))
    return found.received[0]


async def test_receiver_with_either_of_two_secrets_verifies_a_webhook() -> None:
    request = await _received(NEW, OLD)
    for secret in (NEW, OLD):
        assert Webhook(secret).verify(request.body, dict(request.headers))["body"] == {"n": 1}
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        Webhook(OTHER).verify(request.body, dict(request.headers))


async def test_webhook_has_the_id_of_its_delivery() -> None:
    assert (await _received(NEW)).headers["webhook-id"] == "s-m1"


async def test_webhook_without_secrets_has_an_id_and_no_signature() -> None:
    headers = (await _received()).headers
    assert headers["webhook-id"] == "s-m1"
    assert "webhook-signature" not in headers


def _signed(age: int) -> dict[str, str]:
    return signed_headers([NEW], "id", int(time.time()) - age, _BODY)


def test_replay_within_the_tolerance_is_verified() -> None:
    headers = _signed(age=240)
    for _ in range(2):
        assert Webhook(NEW).verify(_BODY, headers) == {"\u00e9": 1}


@pytest.mark.parametrize(("age", "what"), [(360, "too old"), (-360, "too new")])
def test_replay_outside_the_tolerance_is_refused(age: int, what: str) -> None:
    with pytest.raises(WebhookVerificationError, match=what):
        Webhook(NEW).verify(_BODY, _signed(age))


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
def test_changed_header_is_noticed(name: str) -> None:
    # Not a parameter: tests may run long after they were collected.
    change = {name: {"webhook-id": "other"}.get(name, str(int(time.time()) - 9))}
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        Webhook(NEW).verify(_BODY, _signed(0) | change)


def test_changed_body_is_noticed() -> None:
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        Webhook(NEW).verify(_BODY + b" ", _signed(0))
