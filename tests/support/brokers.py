# SPDX-License-Identifier: Apache-2.0
"""Brokers of a ZeroMQ bus for tests: ``zaqar-redis bus-broker`` as a process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support import servers


class ZeroMqBroker(servers.RestartableServer):
    """A private broker, which can be killed and restarted."""

    def __init__(self, log: Path, *words: str) -> None:
        self._log = log
        self._words = words
        self.port = servers.free_ports(2)

    @property
    def uri(self) -> str:
        return f"zeromq://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self._log.read_text()

    def start(self) -> None:
        """Starts it at its port; raises RuntimeError when it ends at once."""
        with self._log.open("wb") as output:
            self._process = process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "zaqar_redis.cli.main", "bus-broker"),
                    *("--port", str(self.port), *self._words),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        servers.wait_for(
            lambda: "receive from" in self.log or process.poll() is not None, "the broker to start"
        )
        if process.poll() is not None:
            raise RuntimeError(f"the broker did not start:\n{self.log}")

    def stop(self) -> int:
        """Returns the exit code."""
        assert self._process
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Returns the exit code of a broker that is about to end."""
        assert self._process
        try:
            return self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def resident_bytes(self) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024


@contextlib.contextmanager
def zeromq_broker(*words: str, started: bool = True) -> Iterator[ZeroMqBroker]:
    """*words* go to its command line."""
    with tempfile.TemporaryDirectory(prefix="zr-broker-") as folder:
        broker = ZeroMqBroker(Path(folder) / "broker.log", *words)
        if not started:
            yield broker
            return
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()
