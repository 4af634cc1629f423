# SPDX-License-Identifier: Apache-2.0
"""Sends mails by a command of the operator, such as sendmail."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from typing import cast

from zaqar_redis import errors
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.mail.transport import ANSWER_MAX, MailHealth, shortened
from zaqar_redis.notify.mail.writer import Mail
from zaqar_redis.notify.target import DELIVERED, Outcome, Result

#: sysexits.h: EX_DATAERR, EX_NOUSER, EX_NOHOST; another attempt would end the same way.
_PERMANENT = (os.EX_DATAERR, os.EX_NOUSER, os.EX_NOHOST)


class CommandTransport:
    def __init__(self, settings: MailSettings) -> None:
        """Raises BadConfiguration."""
        try:
            self._words = shlex.split(settings.smtp_command)
        except ValueError as error:
            raise errors.BadConfiguration(f"[notification] smtp_command: {error}") from error
        if not self._words:
            raise errors.BadConfiguration("[notification] smtp_command: it may not be empty")
        self._free = asyncio.Semaphore(settings.smtp_connections)
        self._health = MailHealth()

    async def send(self, mail: Mail) -> Result:
        async with self._free:
            try:
                status, said = await self._run(_content(mail))
            except OSError as error:
                return self._health.lost(f"{self._words[0]}: {errors.reason(error)}")
        if status == os.EX_OK:
            self._health.back()
            return DELIVERED
        if status in _PERMANENT:
            why = said or f"it ended with status {status}"
            text = f"The mail program refuses the mail: {why}"
            return Result(Outcome.REFUSED, error=text, answer=said)
        return self._health.lost(f"{self._words[0]} ended with status {status}: {said}")

    async def close(self) -> None:
        """Nothing is open between two mails."""

    async def _run(self, content: bytes) -> tuple[int, str]:
        """Returns the status of the command, and what it has written to standard error."""
        # Not a pipe of asyncio: that would wait also for what the command leaves running, as mail
        # programs do.  A command that writes more than the pipe takes is killed in the end.
        said, to_say = os.pipe()
        try:
            status = await self._run_with(content, to_say)
            return status, shortened(_available(said).decode(errors="replace"))
        finally:
            os.close(said)

    async def _run_with(self, content: bytes, stderr: int) -> int:
        """*stderr*: is closed."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,  # so that what it starts is killed with it
            )
        finally:
            os.close(stderr)
        try:
            await _feed(cast(asyncio.StreamWriter, process.stdin), content)
            return await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


def _available(pipe: int) -> bytes:
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, ANSWER_MAX)
    except BlockingIOError:  # it is still open somewhere, and empty
        return b""


async def _feed(stdin: asyncio.StreamWriter, content: bytes) -> None:
    # A command may end before it has read all: its status says more than a broken pipe.
    with contextlib.suppress(ConnectionError):
        stdin.write(content)
        await stdin.drain()
    stdin.close()
    with contextlib.suppress(ConnectionError):
        await stdin.wait_closed()


def _content(mail: Mail) -> bytes:
    """Returns it with this system's line ends, as such commands expect it, and with the header of
    blind copies, which they remove."""
    message = mail.message
    if mail.blind:
        message["Bcc"] = ", ".join(mail.blind)
    return message.as_bytes(policy=message.policy.clone(linesep="\n"))
