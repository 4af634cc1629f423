# SPDX-License-Identifier: Apache-2.0
"""Keeps what a stream in claim mode has: its group, and its claims.

A thread renews both as long as the process lives, whatever Spark is busy with.  When it
dies, another stream may have the group after `_LEASE`, and others the messages when
their claims end.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from urllib.parse import quote

from zaqar_redis import clock, errors
from zaqar_redis.spark.stores import Stores, Where
from zaqar_redis.storage.drivers.redis.claims import Claims
from zaqar_redis.storage.drivers.redis.roles import Roles

LOG = logging.getLogger(__name__)

#: Seconds for which a stream has its group without renewing it.
_LEASE = 10.0
#: Seconds to wait for the group of a stream that died: a little longer than its lease.
_WAIT = _LEASE + 2.0
#: Claims are renewed so often in their time.
_TIMES = 3


class GroupTaken(Exception):
    """Another stream reads in this group."""


class Holding:
    def __init__(self, at: Where, group: str, ttl: int, grace: int) -> None:
        self._where = at
        self._group = group
        self._ttl, self._grace = ttl, grace
        self._role = f"spark:{quote(at.project, safe='')}:{group}"
        self._process = uuid.uuid4().hex
        self._lock = threading.Lock()
        #: claim -> its queue
        self._claims: dict[str, str] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: str | None = None

    def begin(self) -> None:
        """Take the group.  Raises GroupTaken when another stream keeps it.  Idempotent."""
        if self._failure is not None:
            raise GroupTaken(self._failure)
        if self._thread is not None:
            return
        with Stores(self._where) as stores:
            end = time.monotonic() + _WAIT
            while not self._take(stores):
                if time.monotonic() > end:
                    raise GroupTaken(
                        f'option "group": another stream reads in the group "{self._group}" of '
                        f'the project "{self._where.project}"; give this one another name'
                    )
                time.sleep(0.2)
        self._thread = threading.Thread(target=self._keep, name="holding", daemon=True)
        self._thread.start()

    def add(self, queue: str, claim: str) -> None:
        with self._lock:
            self._claims[claim] = queue

    def drop(self, claim: str) -> None:
        with self._lock:
            self._claims.pop(claim, None)

    def has(self, claim: str) -> bool:
        """Whether this process keeps the claim: then it is alive."""
        return claim in self._claims

    def end(self) -> None:
        """Leave the group.  Claims stay until they end."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            with contextlib.suppress(errors.Unavailable), Stores(self._where) as stores:
                self._roles(stores).leave(self._role, self._process).run()

    def _keep(self) -> None:
        renewed = time.monotonic()
        with Stores(self._where) as stores:
            while not self._ended.wait(_LEASE / 4):
                try:
                    if not self._take(stores):
                        self._failure = (
                            f'the group "{self._group}" was taken over by another stream while '
                            "this one stood still"
                        )
                        return
                    if time.monotonic() > renewed + self._ttl / _TIMES:
                        self._renew(stores)
                        renewed = time.monotonic()
                except Exception as error:  # whatever it was: the next time may be better
                    LOG.warning(
                        "cannot renew: %s", errors.reason(error), extra={"action": "renew_failed"}
                    )

    def _take(self, stores: Stores) -> bool:
        return self._roles(stores).take(self._role, self._process, _LEASE).run()

    def _renew(self, stores: Stores) -> None:
        with self._lock:
            claims = list(self._claims.items())
        for claim, queue in claims:
            if not renew(stores, queue, claim, self._ttl, self._grace):
                self.drop(claim)

    def _roles(self, stores: Stores) -> Roles:
        return Roles(stores.client(self._where.control_uri))


def renew(stores: Stores, queue: str, claim: str, ttl: int, grace: int) -> bool:
    """Whether the claim lives, for its whole time from now on."""
    return stores.patiently(
        queue,
        lambda place: (
            claims_at(stores, place.uri)
            .update(stores.where.project, queue, claim, ttl=ttl, grace=grace)
            .run()
        ),
    )


def claims_at(stores: Stores, uri: str) -> Claims:
    return Claims(stores.client(uri), clock.store, stores.bury)
