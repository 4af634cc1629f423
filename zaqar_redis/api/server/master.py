# SPDX-License-Identifier: Apache-2.0
"""The gunicorn master: replaces workers without a lost request, and reports to systemd."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Protocol

from gunicorn import systemd
from gunicorn.arbiter import Arbiter
from gunicorn.errors import HaltServer

from zaqar_redis import errors
from zaqar_redis.api.server.flags import SharedFlag
from zaqar_redis.api.server.worker import RETIRE, RETIRING_SECONDS

#: Seconds for new workers to accept requests, before the old ones are kept instead.
_BOOT_TIMEOUT = 60.0
#: Seconds between two looks at whether workers that boot are ready.
_READY_INTERVAL = 0.05
_STOPPING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


class ServedApplication(Protocol):
    """What the master needs of gunicorn's application, besides its own contract."""

    #: set as soon as the service is asked to stop
    stopping: SharedFlag

    @property
    def plan(self) -> Any:
        """What workers are made by."""

    @property
    def shutdown_delay(self) -> float:
        """Seconds between the request to stop and the stop."""

    def reload(self) -> None:
        """Reads the configuration, and makes a new plan by it.

        Raises BadConfiguration; then nothing has changed.
        """

    def use(self, plan: Any) -> None: ...


class Master(Arbiter):  # type: ignore[misc]  # it is untyped
    """Starts, replaces and stops the workers."""

    app: ServedApplication

    def __init__(self, app: ServedApplication) -> None:
        super().__init__(app)
        #: workers that end by themselves: pid -> worker, and when it is killed
        self._retiring: dict[int, tuple[Any, float]] = {}
        self._is_ready = False
        self._is_stopping = False
        self._watchdog_interval = _watchdog_interval()
        self._watchdog_at = 0.0

    def start(self) -> None:
        # The base class would report that it is ready before any worker accepts.
        address = os.environ.pop("NOTIFY_SOCKET", None)
        super().start()
        if address is not None:
            os.environ["NOTIFY_SOCKET"] = address

    def wait_for_signals(self, timeout: float = 1.0) -> list[int]:
        self._notify_watchdog()
        if not self._is_ready:
            timeout = min(timeout, _READY_INTERVAL)
            if len(self.WORKERS) >= self.num_workers and self._accept(self.WORKERS):
                self._is_ready = True
                self._notify("READY=1")
        if self._watchdog_interval is not None:
            timeout = min(timeout, self._watchdog_interval)
        found: list[int] = super().wait_for_signals(timeout)
        return found

    def reload(self) -> None:
        self._notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
        before = self.app.plan
        try:
            self.app.reload()
            self.setup(self.app)
            if not self._replace_workers():
                self.app.use(before)
                self.setup(self.app)
        except errors.BadConfiguration as error:
            for line in str(error).splitlines():
                self.log.error("not reloaded, the configuration before goes on to apply: %s", line)
        self._notify("READY=1")

    def _replace_workers(self) -> bool:
        """Starts new workers; retires the old ones once these accept.

        Returns whether it did.  Otherwise the old ones go on.
        """
        old = set(self.WORKERS)
        failure = self._boot_beside(old)
        if failure is None:
            for pid in old & self.WORKERS.keys():
                self._retire(pid, RETIRE)
            self.log.info("%d new workers serve", len(self.WORKERS))
            return True
        for pid in self.WORKERS.keys() - old:
            self._retire(pid, signal.SIGTERM)
        if failure:
            self.log.error("not reloaded, the workers before go on: %s", failure)
        return False

    def _boot_beside(self, old: set[int]) -> str | None:
        """Starts workers and waits until they can serve; returns why they do not, or None.

        The reason is "" when the service is asked to stop meanwhile.
        """
        deadline = time.monotonic() + _BOOT_TIMEOUT
        later: list[int] = []
        try:
            while True:
                new = {pid: worker for pid, worker in self.WORKERS.items() if pid not in old}
                if len(new) >= self.num_workers and self._accept(new):
                    if all(worker.connected.is_set() for worker in new.values()):
                        return None
                    return "new ones do not reach their store; the lines above say why"
                if time.monotonic() > deadline:
                    return f"new ones do not accept requests within {_BOOT_TIMEOUT:.0f} s"
                for _ in range(self.num_workers - len(new)):  # also for one that was killed
                    self.spawn_worker()
                signals = self.wait_for_signals(_READY_INTERVAL)
                later += [each for each in signals if each != signal.SIGCHLD]
                if not set(_STOPPING_SIGNALS).isdisjoint(later):
                    return ""
                self.murder_workers()
                self.reap_workers()
        except HaltServer:
            return "a new one does not start; the lines above say why"
        finally:
            for each in later:
                self.SIG_QUEUE.put_nowait(each)

    @staticmethod
    def _accept(workers: dict[int, Any]) -> bool:
        return all(worker.ready.is_set() for worker in workers.values())

    def _retire(self, pid: int, number: signal.Signals) -> None:
        """Leaves a worker to its end: it counts no more, and another takes its place."""
        killed_at = time.monotonic() + RETIRING_SECONDS + self.cfg.graceful_timeout
        self._retiring[pid] = self.WORKERS.pop(pid), killed_at
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def reap_workers(self) -> None:
        self._notify_watchdog()
        try:
            super().reap_workers()
        except HaltServer:  # a worker did not start
            if not self._is_stopping:
                raise
        for pid, (worker, killed_at) in list(self._retiring.items()):
            try:
                # What has ended was waited for above, whosever child it is.
                os.kill(pid, signal.SIGKILL if time.monotonic() > killed_at else 0)
            except ProcessLookupError:
                del self._retiring[pid]
                worker.tmp.close()

    def murder_workers(self) -> None:
        super().murder_workers()
        if self._retiring:
            self.reap_workers()

    def stop(self, graceful: bool = True) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            self.app.stopping.set()
            self._notify("STOPPING=1")
            if graceful and self._is_ready:
                self._wait_for_load_balancers()
        self.WORKERS.update({pid: worker for pid, (worker, _) in self._retiring.items()})
        self._retiring.clear()
        super().stop(graceful)

    def _wait_for_load_balancers(self) -> None:
        """Goes on for the delay, in which the probe for readiness is answered with 503."""
        end = time.monotonic() + self.app.shutdown_delay
        while time.monotonic() < end:
            signals = self.wait_for_signals(min(1.0, max(0.0, end - time.monotonic())))
            if signal.SIGINT in signals or signal.SIGQUIT in signals:
                return
            self.reap_workers()
            self.manage_workers()

    def _notify(self, state: str) -> None:
        systemd.sd_notify(state, self.log)

    def _notify_watchdog(self) -> None:
        interval, now = self._watchdog_interval, time.monotonic()
        if interval is not None and now >= self._watchdog_at:
            self._watchdog_at = now + interval
            self._notify("WATCHDOG=1")


def _watchdog_interval() -> float | None:
    """Returns the seconds between two signs of life: systemd waits for three times as long."""
    given, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not given.isdecimal() or pid not in ("", str(os.getpid())):
        return None
    return int(given) / 3_000_000 or None
