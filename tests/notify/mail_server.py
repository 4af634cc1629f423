# SPDX-License-Identifier: Apache-2.0
"""A real mail server, which records mails and can be told to refuse some."""

from __future__ import annotations

import asyncio
import contextlib
import email.policy
import ssl
from collections.abc import AsyncIterator, Iterator
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path
from threading import Thread
from typing import cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "zaqar", "secret of the mail server"


class RunningMailServer:
    """What it has received, and what it answers."""

    def __init__(self) -> None:
        self.port = 0
        self.connections: list[SMTP] = []
        self.mails: list[EmailMessage] = []
        #: of each mail
        self.recipients: list[list[str]] = []
        self.senders: list[str | None] = []
        #: by recipient: answers to come, before it is accepted
        self.answers: dict[str, list[str]] = {}
        #: a client has said goodbye
        self.was_quit = asyncio.Event()
        #: the answer to the content; empty: it is accepted
        self.content_answer = ""

    async def handle_RCPT(  # aiosmtpd calls it
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.answers.get(address):
            return self.answers[address].pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.content_answer:
            return self.content_answer
        parser = BytesParser(policy=email.policy.default)
        self.mails.append(parser.parsebytes(cast(bytes, envelope.content)))
        self.recipients.append([str(each) for each in envelope.rcpt_tos])
        self.senders.append(envelope.mail_from)
        return "250 OK"

    async def handle_QUIT(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.was_quit.set()
        return "221 Bye"

    def close_connections(self) -> None:
        for each in self.connections:
            if each.transport is not None:
                each.transport.close()


def _authenticate(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: object
) -> AuthResult:
    is_right = given == LoginPassword(USER.encode(), PASSWORD.encode())
    return AuthResult(success=is_right, handled=False)


@contextlib.asynccontextmanager
async def mail_server(
    certificate: tuple[Path, Path] | None = None, *, starttls: bool = False, login: bool = False
) -> AsyncIterator[RunningMailServer]:
    """*certificate*: files of key and certificate, for TLS.  *login*: users must log in."""
    found = RunningMailServer()
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate[1], certificate[0])

    def connected() -> SMTP:
        own = SMTP(
            found,
            hostname="mail.test",
            tls_context=context if starttls else None,
            require_starttls=starttls,
            auth_required=login,
            auth_require_tls=starttls,
            authenticator=_authenticate if login else None,
            loop=asyncio.get_running_loop(),
        )
        found.connections.append(own)
        return own

    loop = asyncio.get_running_loop()
    server = await loop.create_server(connected, "127.0.0.1", 0, ssl=None if starttls else context)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        found.close_connections()
        server.close()
        await server.wait_closed()


@contextlib.contextmanager
def running_mail_server() -> Iterator[RunningMailServer]:
    """The same in a thread, for tests that block."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = Thread(target=loop.run_forever)
        thread.start()
        opened = mail_server()
        try:
            yield asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(60)
        finally:
            asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result(60)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
