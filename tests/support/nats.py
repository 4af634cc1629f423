# SPDX-License-Identifier: Apache-2.0
"""A real NATS server for tests, in a folder of its own and stopped by its pid."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.servers import RestartableServer, free_port, program, wait_for


class NatsServer(RestartableServer):
    """A private nats-server, which can be killed and restarted on its port."""

    def __init__(self, folder: Path, options: str) -> None:
        self.port = free_port()
        self.log = folder / "nats.log"
        self._configuration = folder / "nats.conf"
        self._options = options

    @property
    def uri(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it; raises RuntimeError when it ends at once."""
        starts = self._starts()
        self._configuration.write_text(
            f'listen: "127.0.0.1:{self.port}"\nlog_file: "{self.log}"\n{self._options}\n'
        )
        self._process = process = subprocess.Popen(
            [program("nats-server"), "--config", str(self._configuration)],
            start_new_session=True,
        )
        wait_for(
            lambda: process.poll() is not None or self._starts() > starts, "nats-server to start"
        )
        if process.poll() is not None:
            raise RuntimeError(f"nats-server does not start: {self.log.read_text()}")

    def _starts(self) -> int:
        return self.log.read_text().count("Server is ready") if self.log.exists() else 0


@contextlib.contextmanager
def nats_server(options: str = "") -> Iterator[NatsServer]:
    """Runs a server; *options*: lines of its configuration."""
    with tempfile.TemporaryDirectory(prefix="zr-nats-") as folder:
        server = NatsServer(Path(folder), options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
