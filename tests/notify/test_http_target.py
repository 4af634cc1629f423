# SPDX-License-Identifier: Apache-2.0
"""Webhooks at endpoints that behave, and at those that do not."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tests.notify.endpoints import (
    LOOPBACK,
    Answering,
    ReceivedRequest,
    WebhookEndpoint,
    Writer,
    answer,
    delivery,
    endpoint,
    http_target,
    sends,
)
from tests.support.certificates import certificate
from zaqar_redis import errors
from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.notify.target import Outcome, Result
from zaqar_redis.notify.targets.http import ANSWER_MAX, HttpTarget
from zaqar_redis.service.subscription_options import SubscriptionOptions


async def delivered(
    answering: Answering, path: str = "/", **options: Any
) -> tuple[Result, WebhookEndpoint]:
    """Returns what came of one delivery to an endpoint."""
    async with endpoint(answering) as found, http_target() as target:
        return await target.deliver(delivery(found.uri(path), **options)), found


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((status, Outcome.DELIVERED) for status in (200, 204)),
        *((status, Outcome.REFUSED) for status in (400, 404)),
        *((status, Outcome.RETRY) for status in (408, 425, 429, 500, 503)),
        (410, Outcome.GONE),
    ],
)
async def test_status_decides_the_outcome(status: int, outcome: Outcome) -> None:
    result, found = await delivered(answer(status))
    assert (result.outcome, result.status) == (outcome, status)
    expected = "" if outcome is Outcome.DELIVERED else f"{found.uri('')} answered {status}"
    assert result.error == expected


async def test_message_is_posted_to_the_path_and_query() -> None:
    _, found = await delivered(answer(200), "/a/b?c=d%20e")
    (request,) = found.received
    assert request.line == "POST /a/b?c=d%20e HTTP/1.1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["host"] == f"127.0.0.1:{found.port}"
    assert b'"Message_Type":"Notification"' in request.body


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("17", 17.0), ("99999999999999", 3600.0), ("soon", None), ("-1", None), ("", None)],
)
async def test_retry_after_in_seconds_is_bounded(value: str, seconds: float | None) -> None:
    result, _ = await delivered(answer(429, f"Retry-After: {value}\r\n"))
    assert result.retry_after == seconds


async def test_retry_after_as_a_date_is_understood() -> None:
    date = formatdate(time.time() + 100, usegmt=True)
    result, _ = await delivered(answer(503, f"Retry-After: {date}\r\n"))
    assert result.retry_after is not None
    assert 90 < result.retry_after <= 100


async def test_beginning_of_an_answer_is_kept_as_text() -> None:
    result, _ = await delivered(answer(500, "", b"no \xff\x00 way" + b"!" * 5000))
    assert result.answer.startswith("no \ufffd\ufffd way!")
    assert len(result.answer) == 1024


async def test_compressed_answer_is_not_expanded() -> None:
    result, found = await delivered(answer(200, "Content-Encoding: gzip\r\n", b"not gzip"))
    assert result.outcome is Outcome.DELIVERED
    assert found.received[0].headers["accept-encoding"] == "identity"


async def test_connection_is_used_again_after_a_short_answer() -> None:
    async with endpoint(answer(200, "", b"thanks")) as found, http_target() as target:
        for _ in range(3):
            await target.deliver(delivery(found.uri()))
        assert len(found.received) == 3
        assert len(found.accepted) == 1


async def test_gigabyte_of_an_answer_is_not_read() -> None:
    async def flood(request: ReceivedRequest, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        for _ in range(15_000):
            writer.write(b"x" * ANSWER_MAX)
            await writer.drain()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with endpoint(flood) as found, http_target() as target:
        result = await target.deliver(delivery(found.uri()))
        await asyncio.wait_for(found.ended.get(), 60)
    assert result.outcome is Outcome.DELIVERED
    assert result.answer == "x" * 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


async def _silent(request: ReceivedRequest, writer: Writer) -> None:
    await asyncio.Event().wait()


async def _trickling_head(request: ReceivedRequest, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x: y\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)


async def _endless_body(request: ReceivedRequest, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 503 no\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n")
    while True:
        writer.write(b"1\r\nx\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("answering", [_silent, _trickling_head])
async def test_endpoint_that_does_not_answer_in_time_is_tried_again(answering: Answering) -> None:
    begun = time.monotonic()
    result, found = await delivered(answering, timeout=0.3)
    assert time.monotonic() - begun < 30  # the endpoint never ends
    assert result.outcome is Outcome.RETRY
    assert result.error == f"{found.uri('')} did not answer within 0.3 s"


async def test_status_counts_when_the_rest_of_the_answer_does_not_end() -> None:
    result, _ = await delivered(_endless_body, timeout=5)
    assert (result.outcome, result.status) == (Outcome.RETRY, 503)
    assert result.answer.startswith("xx")


async def test_time_out_of_the_operator_bounds_that_of_the_subscription() -> None:
    settings = HttpSettings(allowed_networks=LOOPBACK.allowed_networks, max_timeout=0.2)
    async with endpoint(_silent) as found, http_target(settings) as target:
        result = await target.deliver(delivery(found.uri(), timeout=50))
    assert result.error.endswith("within 0.2 s")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nConte", "closed the connection without an answer"),
        (b"220 mail.example ESMTP\r\n", "did not answer as HTTP servers do"),
        (b"\x00\xff" * 4000, "did not answer as HTTP servers do"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, "did not answer as HTTP servers do"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000, "did not answer as HTTP servers do"),
        (b"HTTP/1.1 999999 OK\r\n\r\n", "did not answer as HTTP servers do"),
    ],
)
async def test_answer_that_is_none_is_tried_again(data: bytes, error: str) -> None:
    result, found = await delivered(sends(data))
    assert (result.outcome, result.status) == (Outcome.RETRY, 0)
    assert result.error == f"{found.uri('')} {error}"


async def test_answer_that_breaks_off_counts_by_its_status() -> None:
    result, _ = await delivered(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc"))
    assert (result.outcome, result.answer) == (Outcome.DELIVERED, "abc")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\nok", 204),
        (b"HTTP/1.0 204 No Content\r\n\r\nok", 204),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc", 204),
        (b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 204),
        (b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\nok", 204),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokstray", 200),
        (b"HTTP/1.1 500 no\r\nContent-Length: 2\r\n\r\nokstray", 500),
        (b"HTTP/1.1 304 Not Modified\r\n\r\nok", 304),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nok", 204),
        (b"HTTP/1.1 204 No Content\n\nok", 204),
        (b"HTTP/1.1 204 No Content\r\n|\r\nok", 204),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nok\r\n", 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n", 200),
    ],
)
async def test_status_counts_whatever_comes_behind_the_answer(data: bytes, status: int) -> None:
    async def send(request: ReceivedRequest, writer: Writer) -> None:
        for part in data.split(b"|"):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)  # most often the parts come by themselves

    begun = time.monotonic()
    result, _ = await delivered(send, timeout=60)
    assert time.monotonic() - begun < 30  # nobody waits for the rest
    outcome = Outcome.DELIVERED if status < 300 else Outcome.RETRY
    assert (result.outcome, result.status) == (outcome, status)


async def test_closed_port_is_tried_again() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # nobody listens
        uri = f"http://127.0.0.1:{probe.getsockname()[1]}"
        async with http_target() as target:
            result = await target.deliver(delivery(uri))
    assert result.outcome is Outcome.RETRY
    assert result.error == f"no connection to {uri} is possible: Connection refused"


async def test_target_that_is_closed_delivers_nothing() -> None:
    async with endpoint(answer(200)) as found, http_target() as target:
        assert (await target.deliver(delivery(found.uri()))).outcome is Outcome.DELIVERED
        await target.close()
        assert (await target.deliver(delivery(found.uri()))).outcome is Outcome.RETRY
        assert len(found.received) == 1


# -- TLS -------------------------------------------------------------------


def _server_side(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    key, own = certificate(folder, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, key)
    return context, own


async def test_endpoint_with_a_certificate_of_the_ca_file_gets_webhooks(tmp_path: Path) -> None:
    tls, own = _server_side(tmp_path, "endpoint")
    settings = HttpSettings(allowed_networks=("127.0.0.0/8",), ca_file=str(own))
    async with endpoint(answer(200), tls=tls) as found, http_target(settings) as target:
        result = await target.deliver(delivery(found.uri(scheme="https")))
    assert result.outcome is Outcome.DELIVERED


async def test_certificate_that_nobody_trusts_is_named(tmp_path: Path) -> None:
    tls, _ = _server_side(tmp_path, "endpoint")
    async with endpoint(answer(200), tls=tls) as found, http_target() as target:
        result = await target.deliver(delivery(found.uri(scheme="https")))
    assert result.outcome is Outcome.RETRY
    origin = found.uri("", "https")
    assert result.error == f"the certificate of {origin} is refused: self-signed certificate"
    assert found.received == []


async def test_certificate_of_another_host_is_named(tmp_path: Path) -> None:
    tls, own = _server_side(tmp_path, "endpoint")
    settings = HttpSettings(allowed_networks=("127.0.0.0/8",), ca_file=str(own))
    async with (
        endpoint(answer(200), host="127.0.0.2", tls=tls) as found,
        http_target(settings) as target,
    ):
        uri = found.uri(scheme="https", host="127.0.0.2")
        result = (await target.deliver(delivery(uri))).error
    assert "IP address mismatch" in result


async def test_plain_http_at_an_https_uri_is_tried_again() -> None:
    async with endpoint(answer(200)) as found, http_target() as target:
        result = await target.deliver(delivery(found.uri(scheme="https"), timeout=0.3))
    assert result.outcome is Outcome.RETRY


def test_missing_ca_file_is_a_bad_configuration(tmp_path: Path) -> None:
    with pytest.raises(errors.BadConfiguration, match=r"\[notification\] ca_file"):
        HttpTarget(HttpSettings(ca_file=str(tmp_path / "none")))


# -- redirects -------------------------------------------------------------


def _redirecting(to: str, status: int = 307, times: int = 1) -> Answering:
    left = [times]

    async def answering(request: ReceivedRequest, writer: Writer) -> None:
        left[0] -= 1
        redirect = answer(status, f"Location: {to}\r\n", b"moved")
        await (redirect if left[0] >= 0 else answer(200))(request, writer)

    return answering


@pytest.mark.parametrize(
    ("status", "location", "error"),
    [
        # What answers a GET there, a page that asks to log in, says nothing about the messages.
        (
            303,
            "https://me:p@login.test/?t=1",
            "a redirect to https://login.test, which is not followed",
        ),
        (300, "https://b.test:8443/c", "a redirect to https://b.test:8443, which is not followed"),
        (303, "file:///etc/passwd", "a redirect to what is no URI of a host"),
        (303, "http://[::1", "a redirect to what is no URI of a host"),
        *((status, None, "a redirect without a Location") for status in (301, 302, 303, 304, 307)),
    ],
)
async def test_redirect_that_does_not_lead_on_delivers_nothing(
    status: int, location: str | None, error: str
) -> None:
    headers = "Retry-After: 17\r\n" + (f"Location: {location}\r\n" if location else "")
    result, found = await delivered(answer(status, headers))
    assert len(found.received) == 1
    assert (result.outcome, result.status, result.retry_after) == (Outcome.RETRY, status, 17)
    assert result.error == f"{found.uri('')} answered {status}: {error}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirected_message_is_posted_again(status: int) -> None:
    result, found = await delivered(_redirecting("/b?c", status), "/a")
    assert result.outcome is Outcome.DELIVERED
    first, second = found.received
    assert second.line == "POST /b?c HTTP/1.1"
    assert second.body == first.body


async def test_endpoint_that_redirects_to_itself_is_asked_four_times() -> None:
    result, found = await delivered(_redirecting("/", times=1000))
    assert (result.outcome, len(found.received)) == (Outcome.RETRY, 4)
    asked = found.uri("")
    error = f"{asked} answered 307: a redirect to {asked}, and no more than 3 are followed"
    assert (result.error, result.status) == (error, 307)


@pytest.mark.parametrize(
    ("to", "error"),
    [
        ("ftp://127.0.0.1/", "a redirect to what is neither http nor https"),
        ("file:///etc/passwd", "a redirect to what is neither http nor https"),
        ("http://[::1", "a redirect to what is no URI of a host"),
    ],
)
async def test_redirect_to_something_else_than_http_is_not_followed(to: str, error: str) -> None:
    result, found = await delivered(_redirecting(to))
    assert result.outcome is Outcome.RETRY
    assert (result.error, result.status) == (f"{found.uri('')} answered 307: {error}", 307)


async def test_redirect_from_https_to_http_is_not_followed(tmp_path: Path) -> None:
    tls, own = _server_side(tmp_path, "endpoint")
    settings = HttpSettings(allowed_networks=("127.0.0.0/8",), ca_file=str(own))
    async with (
        endpoint(answer(200)) as plain,
        endpoint(_redirecting(plain.uri()), tls=tls) as found,
        http_target(settings) as target,
    ):
        result = await target.deliver(delivery(found.uri(scheme="https")))
    asked, to = found.uri("", "https"), plain.uri("")
    assert result.error == (
        f"{asked} answered 307: a redirect from https to {to}, which is not followed"
    )
    assert plain.received == []


_SECRETS = {"Authorization": "Bearer t", "X-Api-Key": "k"}


async def test_headers_of_the_owner_go_to_the_same_origin() -> None:
    _, found = await delivered(_redirecting("/b"), raw={"post_headers": _SECRETS})
    for request in found.received:
        assert request.headers["authorization"] == "Bearer t"
        assert request.headers["x-api-key"] == "k"


async def test_headers_of_the_owner_do_not_go_to_another_origin() -> None:
    async with (
        endpoint(answer(200)) as other,
        endpoint(_redirecting(other.uri())) as found,
        http_target() as target,
    ):
        uri = found.uri().replace("//", "//me:password@")
        secret = "whsec_" + "A" * 32
        await target.deliver(
            delivery(uri, raw={"post_headers": {"X-Api-Key": "k"}}, secrets=(secret,))
        )
    first, second = found.received[0].headers, other.received[0].headers
    assert (first["authorization"], first["x-api-key"]) == ("Basic bWU6cGFzc3dvcmQ=", "k")
    assert not {"authorization", "x-api-key"} & set(second)
    assert second["webhook-signature"] == first["webhook-signature"]


async def test_error_shows_neither_password_nor_path_nor_query() -> None:
    async with endpoint(answer(500)) as found, http_target() as target:
        uri = found.uri("/path-s3cret?token=s3cret").replace("//", "//me:s3cret@")
        result = (await target.deliver(delivery(uri))).error
    assert "s3cret" not in result


# -- what is refused -------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        *({"Host": "x"}, {"content-length": "1"}, {"Webhook-Id": "x"}, {"a b": "x"}),
        *({"a\r\nb": "x"}, {"a": "x\r\nb: c"}, {"a": 1}, ["a"]),
    ],
)
async def test_headers_that_nobody_has_checked_are_never_sent(headers: object) -> None:
    result, found = await delivered(answer(200), raw={"post_headers": headers})
    assert (result.outcome, found.received) == (Outcome.REFUSED, [])
    assert "post_headers" in result.error


@pytest.mark.parametrize(
    "uri",
    [
        *("http:", "http:///x", "http:x", "http://h:99999/", "http://h:0/", "http://[::1"),
        *("ftp://h/", "http://a..b/", "http://.a/", f"http://{'a' * 64}.example/"),
    ],
)
def test_uri_without_a_valid_host_is_refused(uri: str) -> None:
    with pytest.raises(errors.BadRequest, match="subscriber"):
        HttpTarget(LOOPBACK).check(uri, SubscriptionOptions())


@pytest.mark.parametrize(
    "uri", ["http:", "http:///x", "http://h:99999/", "http://[::1", "ftp://h/"]
)
async def test_uri_that_was_not_checked_is_refused_when_it_is_delivered_to(uri: str) -> None:
    async with http_target() as target:
        result = await target.deliver(delivery(uri))
    assert result.outcome is Outcome.REFUSED
