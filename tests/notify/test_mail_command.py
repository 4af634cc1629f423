# SPDX-License-Identifier: Apache-2.0
"""Mails are sent by a real command, which may end in any way, or never."""

from __future__ import annotations

import asyncio
import email
import email.policy
import os
import signal
from pathlib import Path

import pytest

from tests.notify.deliveries import delivery
from tests.support import servers
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.target import DELIVERED, Delivery, Outcome, Result
from zaqar_redis.notify.targets.mail import MailTarget

ANN = "mailto:ann@example.org"


def _command(folder: Path, script: str) -> str:
    path = folder / "send mail"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return f"'{path}' -t -oi"


def _deliver(command: str, given: Delivery) -> Result:
    async def run() -> Result:
        target = MailTarget(MailSettings(smtp_command=command))
        return await target.deliver(given)

    return asyncio.run(asyncio.wait_for(run(), 30))


def test_command_gets_the_mail_and_its_arguments(tmp_path: Path) -> None:
    command = _command(tmp_path, f"cat > '{tmp_path}/mail'; echo \"$@\" > '{tmp_path}/arguments'")
    assert _deliver(command, delivery(f"{ANN}?bcc=bo@example.org&subject=a%20%24(b)")) == DELIVERED
    assert (tmp_path / "arguments").read_text() == "-t -oi\n"
    content = (tmp_path / "mail").read_bytes()
    mail = email.message_from_bytes(content, policy=email.policy.default)
    assert (mail["To"], mail["Bcc"]) == ("ann@example.org", "bo@example.org")
    assert mail["Subject"] == "a $(b)"
    assert b"\r" not in content


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (os.EX_NOUSER, Outcome.REFUSED),
        (os.EX_DATAERR, Outcome.REFUSED),
        (os.EX_TEMPFAIL, Outcome.RETRY),
        (1, Outcome.RETRY),
    ],
)
def test_status_of_the_command_decides(tmp_path: Path, status: int, outcome: Outcome) -> None:
    command = _command(tmp_path, f"cat > /dev/null; echo User unknown >&2; exit {status}")
    result = _deliver(command, delivery(ANN))
    assert result.outcome is outcome
    assert ("User unknown" in result.error) == (outcome is Outcome.REFUSED)


def test_command_that_refuses_without_a_word_is_named_by_its_status(tmp_path: Path) -> None:
    result = _deliver(_command(tmp_path, "cat > /dev/null; exit 65"), delivery(ANN))
    assert result.error == "The mail program refuses the mail: it ended with status 65"


def test_command_that_hangs_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    command = _command(tmp_path, f"sleep 600 & echo $! > '{tmp_path}/pid'; wait")
    file = tmp_path / "pid"
    for seconds in (0.5, 2, 8):
        result = _deliver(command, delivery(ANN, timeout=seconds))
        assert result.outcome is Outcome.RETRY
        if file.exists() and file.read_text():
            break  # else it was killed before it has started anything: the machine is busy
    pid = int(file.read_text())
    servers.wait_for(lambda: not _runs(pid), "the command to end")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_command_that_reads_nothing_and_writes_without_end_is_killed(tmp_path: Path) -> None:
    given = delivery(ANN, bodies=("x" * 300_000,), timeout=0.3)
    result = _deliver(_command(tmp_path, "yes >&2"), given)
    assert result.outcome is Outcome.RETRY


def test_command_may_leave_something_running(tmp_path: Path) -> None:
    command = _command(tmp_path, f"cat > /dev/null; sleep 600 & echo $! > '{tmp_path}/pid'")
    try:
        assert _deliver(command, delivery(ANN, timeout=20.0)) == DELIVERED
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_command_that_ends_before_it_has_read_all_is_judged_by_its_status(tmp_path: Path) -> None:
    given = delivery(ANN, bodies=("x" * 300_000,))
    assert _deliver(_command(tmp_path, f"exit {os.EX_NOUSER}"), given).outcome is Outcome.REFUSED


def test_missing_command_is_logged_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = _deliver(f"'{tmp_path}/none'", delivery(ANN))
    assert result.outcome is Outcome.RETRY
    assert "none" not in result.error
    assert "mails cannot be sent" in caplog.text
