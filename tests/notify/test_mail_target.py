# SPDX-License-Identifier: Apache-2.0
"""Mails reach a real mail server, and its answers decide what happens next."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.notify.deliveries import delivery
from tests.notify.endpoints import raw_server
from tests.notify.mail_server import PASSWORD, USER, RunningMailServer, mail_server
from tests.support import servers
from tests.support.certificates import certificate
from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.cli import service_factory
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.mail.smtp import SmtpConnections
from zaqar_redis.notify.target import DELIVERED, Outcome
from zaqar_redis.notify.targets.mail import MailTarget
from zaqar_redis.service.subscription_options import SubscriptionOptions

ANN, BOB = "ann@example.org", "bob@example.org"
BOTH = f"mailto:{ANN},{BOB}"


def _plain(port: int, **settings: Any) -> MailSettings:
    """Returns settings for a server without TLS, unless *settings* say otherwise."""
    given = {"smtp_mode": "self_local", "smtp_host": "127.0.0.1", "smtp_tls": "none"} | settings
    return MailSettings(smtp_port=port, **given)


@contextlib.asynccontextmanager
async def _target(port: int = 0, **settings: Any) -> AsyncIterator[MailTarget]:
    target = MailTarget(_plain(port, **settings))
    try:
        yield target
    finally:
        await target.close()


@contextlib.asynccontextmanager
async def _mailing(**settings: Any) -> AsyncIterator[tuple[RunningMailServer, MailTarget]]:
    async with (
        asyncio.timeout(30),
        mail_server() as server,
        _target(server.port, **settings) as target,
    ):
        yield server, target


async def test_mail_reaches_its_recipients() -> None:
    async with _mailing() as (server, target):
        raw = {"from": "Eve <eve@example.org>"}
        assert await target.deliver(delivery(f"{BOTH}?bcc=cy@example.org", raw)) == DELIVERED
        assert server.recipients == [[ANN, BOB, "cy@example.org"]]
        assert server.senders == ["eve@example.org"]
        (mail,) = server.mails
        assert (mail["To"], mail["Bcc"]) == (f"{ANN}, {BOB}", None)


async def test_greylisted_mail_is_tried_again_and_is_the_same_mail() -> None:
    async with _mailing() as (server, target):
        server.answers[ANN] = ["451 4.7.1 Greylisted"]
        result = await target.deliver(delivery(f"mailto:{ANN}"))
        assert (result.outcome, result.status) == (Outcome.RETRY, 451)
        assert (result.answer, ANN in result.error) == ("4.7.1 Greylisted", True)
        assert await target.deliver(delivery(f"mailto:{ANN}")) == DELIVERED
        assert len(server.mails) == 1


async def test_refused_recipient_ends_the_delivery() -> None:
    async with _mailing() as (server, target):
        server.answers[ANN] = ["550 5.1.1 No such user"]
        result = await target.deliver(delivery(f"mailto:{ANN}"))
        assert (result.outcome, result.status) == (Outcome.REFUSED, 550)
        assert result.error == f"The mail server refuses {ANN}: 550 5.1.1 No such user"
        assert server.mails == []


async def test_refused_recipient_beside_others_is_named() -> None:
    async with _mailing() as (server, target):
        server.answers[BOB] = ["550 No such user"]
        result = await target.deliver(delivery(BOTH))
        assert (result.outcome, result.status) == (Outcome.DELIVERED, 550)
        assert BOB in result.error
        assert ANN not in result.error
        assert server.recipients == [[ANN]]


async def test_recipients_who_have_a_mail_do_not_get_it_again() -> None:
    async with _mailing() as (server, target):
        server.answers[BOB] = ["451 Later", "452 Full"]
        for status in (451, 452):
            result = await target.deliver(delivery(BOTH))
            assert (result.outcome, result.status) == (Outcome.RETRY, status)
        server.content_answer = "451 Later"
        assert (await target.deliver(delivery(BOTH))).outcome is Outcome.RETRY
        server.content_answer = ""
        assert await target.deliver(delivery(BOTH)) == DELIVERED
        assert server.recipients == [[ANN], [BOB]]
        assert server.mails[0]["Message-ID"] == server.mails[1]["Message-ID"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [("554 Spam", Outcome.REFUSED), ("452 Full", Outcome.RETRY), ("421 Bye", Outcome.RETRY)],
)
async def test_answer_to_the_content_decides(answer: str, outcome: Outcome) -> None:
    async with _mailing() as (server, target):
        server.content_answer = answer
        result = await target.deliver(delivery(f"mailto:{ANN}"))
        assert (result.outcome, result.status) == (outcome, int(answer[:3]))
        server.content_answer = ""
        assert await target.deliver(delivery(f"mailto:{ANN}")) == DELIVERED


async def test_connection_is_kept_for_further_mails() -> None:
    async with _mailing() as (server, target):
        for _ in range(5):
            assert await target.deliver(delivery(f"mailto:{ANN}")) == DELIVERED
        assert (len(server.mails), len(server.connections)) == (5, 1)


async def test_connections_are_bounded() -> None:
    async with _mailing(smtp_connections=3) as (server, target):
        results = await asyncio.gather(*(target.deliver(delivery(BOTH)) for _ in range(12)))
        assert results == 12 * [DELIVERED]
        assert len(server.connections) == 3


async def test_connection_that_the_server_has_closed_is_replaced() -> None:
    async with _mailing() as (server, target):
        for connections in (1, 2):
            assert await target.deliver(delivery(f"mailto:{ANN}")) == DELIVERED
            assert len(server.connections) == connections
            server.close_connections()


async def test_idle_connection_is_closed_after_a_while() -> None:
    async with asyncio.timeout(30), mail_server() as server:
        connections = SmtpConnections(_plain(server.port), idle_seconds=0.01)
        async with connections.connection():
            assert not server.was_quit.is_set()
        await server.was_quit.wait()
        async with connections.connection() as another:
            assert another.is_connected
        assert len(server.connections) == 2
        await connections.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of a key and a certificate."""
    return certificate(tmp_path_factory.mktemp("tls"), "mail")


@pytest.mark.parametrize("mode", ["implicit", "starttls"])
async def test_certificate_of_the_server_is_checked(mode: str, files: tuple[Path, Path]) -> None:
    async with asyncio.timeout(30), mail_server(files, starttls=mode == "starttls") as server:
        trusts: tuple[dict[str, Any], ...] = (
            {"smtp_ca_file": str(files[1])},
            {"smtp_insecure": True},
            {},
        )
        outcomes = []
        for trust in trusts:
            async with _target(server.port, smtp_tls=mode, **trust) as target:
                outcomes.append((await target.deliver(delivery(f"mailto:{ANN}"))).outcome)
        assert outcomes == [Outcome.DELIVERED, Outcome.DELIVERED, Outcome.RETRY]
        assert len(server.mails) == 2


async def test_without_starttls_at_the_server_nothing_is_sent() -> None:
    async with _mailing(smtp_tls="starttls") as (server, target):
        result = await target.deliver(delivery(f"mailto:{ANN}"))
        assert (result.outcome, server.mails) == (Outcome.RETRY, [])


async def test_user_logs_in_at_the_server(
    files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(30), mail_server(files, starttls=True, login=True) as server:
        common = {"smtp_tls": "starttls", "smtp_ca_file": str(files[1])}
        for password, outcome in ((PASSWORD, Outcome.DELIVERED), ("wrong", Outcome.RETRY)):
            login = {"smtp_user_name": USER, "smtp_user_password": password}
            async with _target(server.port, **common, **login) as target:
                result = await target.deliver(delivery(f"mailto:{ANN}"))
                assert result.outcome is outcome
        assert len(server.mails) == 1
    assert "mails cannot be sent: " in caplog.text
    assert PASSWORD not in caplog.text


async def test_server_that_is_down_is_logged_once_and_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = servers.free_port()
    async with asyncio.timeout(30), _target(port) as target:
        for _ in range(3):
            result = await target.deliver(delivery(f"mailto:{ANN}"))
            assert result.outcome is Outcome.RETRY
            assert str(port) not in result.error
    assert caplog.text.count("mails cannot be sent") == 1
    assert str(port) in caplog.text


async def _close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def _garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + 100 * b"\xff" + b"\r\n")


async def _busy(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"554 No mails from you\r\n")


async def _close_in_the_middle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 here\r\n")
    while line := await reader.readline():
        if line.upper().startswith(b"RCPT"):
            writer.close()
            return
        writer.write(b"250 OK\r\n")


async def _silent(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    """Accepts connections, and answers nothing."""


@pytest.mark.parametrize("serve", [_close, _garbage, _busy, _close_in_the_middle, _silent])
async def test_server_that_misbehaves_is_tried_again(serve: Any) -> None:
    async with asyncio.timeout(30), raw_server(serve) as port, _target(port) as target:
        result = await target.deliver(delivery(f"mailto:{ANN}", timeout=0.3))
        assert result.outcome is Outcome.RETRY
        assert result.error


async def test_silent_server_costs_no_more_than_the_timeout() -> None:
    async with (
        asyncio.timeout(30),
        raw_server(_silent) as port,
        _target(port, smtp_connections=1) as target,
    ):
        given = delivery(f"mailto:{ANN}", timeout=0.2)
        results = await asyncio.gather(*(target.deliver(given) for _ in range(3)))
        assert {each.error for each in results} == {"The mail was not accepted within 0.2 seconds."}


async def test_connection_is_given_back_when_an_attempt_is_cancelled() -> None:
    async with asyncio.timeout(30), mail_server() as server:
        settings = _plain(server.port, smtp_connections=1)
        connections = SmtpConnections(settings)
        with contextlib.suppress(asyncio.CancelledError):
            async with connections.connection():
                raise asyncio.CancelledError
        async with connections.connection() as again:
            assert again.is_connected
        await connections.close()


async def test_subscription_that_could_never_get_a_mail_is_refused() -> None:
    async with _mailing() as (_, target):
        bad = delivery("mailto:nobody")
        with pytest.raises(errors.BadRequest, match='"subscriber"'):
            target.check("mailto:nobody", bad.options)
        assert (await target.deliver(bad)).outcome is Outcome.REFUSED
        binary = SubscriptionOptions(format="cloudevents-binary")
        with pytest.raises(errors.BadRequest, match="cloudevents-binary"):
            target.check(f"mailto:{ANN}", binary)


@pytest.mark.parametrize(
    "settings",
    [
        {"smtp_mode": "self_local", "smtp_ca_file": "missing.pem"},
        {"smtp_command": ""},
        {"smtp_command": 'sendmail "'},
    ],
)
def test_bad_settings_are_refused_at_the_start(settings: dict[str, Any]) -> None:
    with pytest.raises(errors.BadConfiguration, match=list(settings)[-1]):
        MailTarget(MailSettings(**settings))


def test_bad_options_of_mails_keep_the_service_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "zaqar_redis.conf"
    file.write_text("[notification]\nsmtp_sender = nobody\n")
    found = service_factory.problems(configuration.load([], [str(file)]))
    assert [each.split(":")[0] for each in found] == ["[notification] smtp_sender"]
