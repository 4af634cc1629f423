# SPDX-License-Identifier: Apache-2.0
"""Processes of ``zaqar-redis notify``."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support import servers


class NotifierProcess:
    """A process that delivers to subscribers, and may be killed and started again."""

    def __init__(self, storage: str, config: Path, log: Path) -> None:
        self._command = [
            *(sys.executable, "-m", "zaqar_redis.cli.main", "notify"),
            *("--storage", storage, "--config-file", str(config)),
        ]
        self.log = log
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            return subprocess.Popen(
                self._command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def started(self, times: int = 1) -> bool:
        return self.log.read_text().count("notifier started") >= times

    def restart(self) -> None:
        """Kills it (SIGKILL), and starts it again."""
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def stop(self) -> int:
        """Asks it to stop; returns its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@contextlib.contextmanager
def notifier(
    storage: str, options: Mapping[str, Mapping[str, object]] | None = None
) -> Iterator[NotifierProcess]:
    """Runs a notifier; *options* are configuration: group -> name -> value."""
    with tempfile.TemporaryDirectory(prefix="zr-notify-") as folder:
        config = Path(folder) / "zaqar_redis.conf"
        config.write_text(servers.config_text(options or {}))
        running = NotifierProcess(storage, config, Path(folder) / "notify.log")
        try:
            servers.wait_for(
                lambda: running.started() or running.process.poll() is not None,
                "the notifier to start",
            )
            yield running
        finally:
            running.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.process.wait(30)
            running.process.kill()
            running.process.wait()
