# SPDX-License-Identifier: Apache-2.0
"""Processes of ``zaqar-redis notify``."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support import servers
from tests.support.processes import ZAQAR_REDIS, LoggedProcess, started


class NotifierProcess(LoggedProcess):
    """A process that delivers to subscribers, and may be killed and started again."""

    def __init__(self, storage: str, config: Path, log: Path) -> None:
        words = [*ZAQAR_REDIS, "notify", "--storage", storage, "--config-file", str(config)]
        super().__init__("notifier", lambda _: words, log)

    def has_started(self) -> bool:
        """Returns whether it has started once."""
        return "notifier started" in self.log.read_text()


@contextlib.contextmanager
def notifier(
    storage: str, options: Mapping[str, Mapping[str, object]] | None = None
) -> Iterator[NotifierProcess]:
    """Runs a notifier; *options* are configuration: group -> name -> value."""
    with tempfile.TemporaryDirectory(prefix="zr-notify-") as folder:
        config = Path(folder) / "zaqar_redis.conf"
        config.write_text(servers.config_text(options or {}))
        log = Path(folder) / "notify.log"
        with started(NotifierProcess(storage, config, log)) as running:
            try:
                servers.wait_for(
                    lambda: running.has_started() or not running.is_alive, "the notifier to start"
                )
                yield running
            finally:
                running.end()
