# SPDX-License-Identifier: Apache-2.0
"""Sends mails to the operator's mail server, over connections that are kept for a while."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Mapping

import aiosmtplib

from zaqar_redis import errors
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.mail.transport import MailHealth, shortened
from zaqar_redis.notify.mail.writer import Mail
from zaqar_redis.notify.target import DELIVERED, Outcome, Result

#: Seconds that a connection is kept without mails: servers close theirs after some minutes.
IDLE_SECONDS = 30.0
#: Mails over one connection: servers refuse more than some hundred.
_MAILS_MAX = 100
#: Seconds for saying goodbye.
_QUIT_SECONDS = 2.0
#: Mails of which is remembered who has them already.
_PARTIAL_MAX = 1024


class SmtpTransport:
    def __init__(self, settings: MailSettings) -> None:
        """Raises BadConfiguration."""
        self._health = MailHealth()
        self._connections = SmtpConnections(settings)
        #: by id of a mail that goes to the others again: who has accepted it
        self._accepted: dict[str, frozenset[str]] = {}

    async def send(self, mail: Mail) -> Result:
        try:
            async with self._connections.connection() as connection:
                self._health.back()
                return await self._send(connection, mail)
        except SmtpUnavailable as error:
            return self._health.lost(errors.reason(error))
        except (aiosmtplib.SMTPException, OSError):
            return Result(
                Outcome.RETRY, error="The mail server has closed the connection before it answered."
            )

    async def close(self) -> None:
        await self._connections.close()

    async def _send(self, connection: aiosmtplib.SMTP, mail: Mail) -> Result:
        before = self._accepted.get(mail.id, frozenset())
        waiting = [each for each in mail.recipients if each not in before]
        try:
            refused, _ = await connection.sendmail(mail.sender, waiting, mail.message.as_bytes())
            refusals = {name: (found[0], found[1]) for name, found in refused.items()}
        except aiosmtplib.SMTPRecipientsRefused as error:
            refusals = {each.recipient: (each.code, each.message) for each in error.recipients}
        except aiosmtplib.SMTPResponseException as error:
            return _refused(error.code, shortened(error.message))
        result = _judged(mail, refusals)
        if result.outcome is Outcome.RETRY:
            self._remember(mail, before.union(waiting) - refusals.keys())
        else:
            self._accepted.pop(mail.id, None)
        return result

    def _remember(self, mail: Mail, accepted: frozenset[str]) -> None:
        if accepted:
            self._accepted[mail.id] = accepted
        if len(self._accepted) > _PARTIAL_MAX:
            del self._accepted[next(iter(self._accepted))]


def _refused(code: int, answer: str, whom: str = "") -> Result:
    """RFC 5321, 4.2.1: 5yz is permanent; anything else may pass."""
    return Result(
        Outcome.REFUSED if code >= 500 else Outcome.RETRY,
        error=f"The mail server refuses {whom or 'the mail'}: {code} {answer}",
        status=max(code, 0),
        answer=answer,
    )


def _judged(mail: Mail, refusals: Mapping[str, tuple[int, str]]) -> Result:
    """*refusals*: code and text by recipient."""
    if not refusals:
        return DELIVERED
    # The first that may pass decides, as another attempt is for that.
    code, answer = min(refusals.values(), key=lambda each: each[0] >= 500)
    result = _refused(code, shortened(answer), whom=", ".join(refusals))
    if result.outcome is Outcome.REFUSED and len(refusals) < len(mail.recipients):
        return Result(Outcome.DELIVERED, result.error, result.status, answer=result.answer)
    return result


class SmtpUnavailable(Exception):
    """There is no connection on which mails could be sent."""


class SmtpConnections:
    """Connections to the mail server: a bounded number, each for one mail at a time."""

    def __init__(self, settings: MailSettings, idle_seconds: float = IDLE_SECONDS) -> None:
        """Raises BadConfiguration."""
        self._settings = settings
        self._idle_seconds = idle_seconds
        self._tls = None if settings.smtp_tls == "none" else _tls_context(settings)
        self._free = asyncio.Semaphore(settings.smtp_connections)
        #: those without a mail, with when they end; the last was used last
        self._idle: list[tuple[aiosmtplib.SMTP, asyncio.TimerHandle]] = []
        self._mails: dict[aiosmtplib.SMTP, int] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._own_name = ""

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[aiosmtplib.SMTP]:
        """Lends a connection.  Raises SmtpUnavailable."""
        async with self._free:
            connection = await self._kept() or await self._opened()
            try:
                yield connection
            except BaseException:  # cancelled, for example: nobody knows what the server expects
                self._drop(connection)
                raise
            self._keep(connection)

    async def close(self) -> None:
        while self._idle:
            connection, timer = self._idle.pop()
            timer.cancel()
            self._end(connection)
        await asyncio.gather(*self._ending)

    async def _kept(self) -> aiosmtplib.SMTP | None:
        """Returns a connection that still works."""
        while self._idle:
            connection, timer = self._idle.pop()
            timer.cancel()
            try:
                await connection.rset()
            except (aiosmtplib.SMTPException, OSError):
                self._drop(connection)
            except BaseException:
                self._drop(connection)
                raise
            else:
                return connection
        return None

    async def _opened(self) -> aiosmtplib.SMTP:
        settings = self._settings
        self._own_name = self._own_name or await asyncio.to_thread(socket.getfqdn)
        # A client for each connection: one whose connection was lost may hang (its issue 243).
        connection = aiosmtplib.SMTP(
            hostname=settings.smtp_host,
            port=settings.smtp_port or None,
            username=settings.smtp_user_name,
            password=settings.smtp_user_password,
            local_hostname=self._own_name,
            use_tls=settings.smtp_tls == "implicit",
            start_tls=settings.smtp_tls == "starttls",
            tls_context=self._tls,
            timeout=None,
        )
        try:
            await connection.connect()
        except (aiosmtplib.SMTPException, OSError) as error:
            connection.close()
            raise SmtpUnavailable(errors.reason(error)) from error
        except BaseException:
            connection.close()
            raise
        self._mails[connection] = 0
        return connection

    def _keep(self, connection: aiosmtplib.SMTP) -> None:
        self._mails[connection] += 1
        if not connection.is_connected:
            self._drop(connection)
        elif self._mails[connection] >= _MAILS_MAX:
            self._end(connection)
        else:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._idle_seconds, self._expire, connection)
            self._idle.append((connection, timer))

    def _expire(self, connection: aiosmtplib.SMTP) -> None:
        self._idle = [each for each in self._idle if each[0] is not connection]
        self._end(connection)

    def _drop(self, connection: aiosmtplib.SMTP) -> None:
        self._mails.pop(connection, None)
        connection.close()

    def _end(self, connection: aiosmtplib.SMTP) -> None:
        task = asyncio.get_running_loop().create_task(self._quit(connection))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _quit(self, connection: aiosmtplib.SMTP) -> None:
        with contextlib.suppress(aiosmtplib.SMTPException, OSError):
            async with asyncio.timeout(_QUIT_SECONDS):
                await connection.quit()
        self._drop(connection)


def _tls_context(settings: MailSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.smtp_ca_file)
    except OSError as error:
        raise errors.BadConfiguration(
            f"[notification] smtp_ca_file: {settings.smtp_ca_file}: {errors.reason(error)}"
        ) from error
    if settings.smtp_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
