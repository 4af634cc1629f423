# SPDX-License-Identifier: Apache-2.0
"""The leases of a stream in claim mode: its group, and its claims.

A thread renews both as long as the process lives, whatever Spark is busy with.  When the
process dies, another stream may take the group after `_LEASE_SECONDS`, and other consumers
the messages when their claims expire.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from functools import partial
from urllib.parse import quote

from zaqar_redis import errors
from zaqar_redis.records import Lease
from zaqar_redis.spark.stores import StoreConfig, StoreConnections, StoreLocation
from zaqar_redis.storage.redis.control import RedisRoles

LOG = logging.getLogger(__name__)

#: Seconds for which a stream keeps its group without renewing the lease.
_LEASE_SECONDS = 10.0
#: Seconds to wait for the group of a stream that died: a little longer than its lease.
_ACQUIRE_TIMEOUT_SECONDS = _LEASE_SECONDS + 2.0
#: Claims are renewed so often in their TTL.
_RENEWALS_PER_TTL = 3


class GroupTaken(Exception):
    """Another stream reads in this group."""


class GroupLease:
    def __init__(self, config: StoreConfig, group: str, lease: Lease) -> None:
        """*lease*: of the claims."""
        self._config = config
        self._group = group
        self.lease = lease
        self._role = f"spark:{quote(config.project, safe='')}:{group}"
        self._process = uuid.uuid4().hex
        self._lock = threading.Lock()
        #: claim -> its queue
        self._claims: dict[str, str] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: str | None = None

    def begin(self) -> None:
        """Takes the group.  Raises GroupTaken when another stream holds it.  Idempotent."""
        if self._failure is not None:
            raise GroupTaken(self._failure)
        if self._thread is not None:
            return
        with StoreConnections(self._config) as stores:
            end = time.monotonic() + _ACQUIRE_TIMEOUT_SECONDS
            while not self._acquire_role(stores):
                if time.monotonic() > end:
                    raise GroupTaken(
                        f'option "group": another stream reads in the group "{self._group}" of '
                        f'the project "{self._config.project}"; give this one another name'
                    )
                time.sleep(0.2)
        self._thread = threading.Thread(target=self._renew_loop, name="group-lease", daemon=True)
        self._thread.start()

    def add(self, queue: str, claim: str) -> None:
        with self._lock:
            self._claims[claim] = queue

    def drop(self, claim: str) -> None:
        with self._lock:
            self._claims.pop(claim, None)

    def has(self, claim: str) -> bool:
        """Returns whether this process renews the claim: then it is alive."""
        return claim in self._claims

    def end(self) -> None:
        """Leaves the group.  Claims stay until they expire."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            with contextlib.suppress(errors.Unavailable), StoreConnections(self._config) as stores:
                self._roles(stores).leave(self._role, self._process).run()

    def _renew_loop(self) -> None:
        renewed = time.monotonic()
        with StoreConnections(self._config) as stores:
            while not self._ended.wait(_LEASE_SECONDS / 4):
                try:
                    if not self._acquire_role(stores):
                        self._failure = (
                            f'the group "{self._group}" was taken over by another stream while '
                            "this one stood still"
                        )
                        return
                    if time.monotonic() > renewed + self.lease.ttl / _RENEWALS_PER_TTL:
                        self._renew(stores)
                        renewed = time.monotonic()
                except Exception as error:  # whatever it was: the next time may be better
                    LOG.warning(
                        "cannot renew: %s", errors.reason(error), extra={"action": "renew_failed"}
                    )

    def _acquire_role(self, stores: StoreConnections) -> bool:
        return self._roles(stores).take(self._role, self._process, _LEASE_SECONDS).run()

    def _renew(self, stores: StoreConnections) -> None:
        with self._lock:
            claims = list(self._claims.items())
        for claim, queue in claims:
            if not stores.with_retry(queue, partial(self.renew_at, stores, queue, claim)):
                self.drop(claim)

    def renew_at(
        self, stores: StoreConnections, queue: str, claim: str, location: StoreLocation
    ) -> bool:
        """Renews the claim for its whole TTL; returns whether it was alive."""
        claims = stores.claims(location)
        project = self._config.project
        return claims.update(project, queue, claim, self.lease).run() is not None

    def _roles(self, stores: StoreConnections) -> RedisRoles:
        return RedisRoles(stores.client(self._config.control_uri))
