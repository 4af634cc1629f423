# SPDX-License-Identifier: Apache-2.0
"""The sessions of one node, by id and by user."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from zaqar_redis.realtime.node.control import ConnectionSelector
from zaqar_redis.realtime.session.session import Session


class SocketQuota(Protocol):
    """Limits the open sockets of each project."""

    def add_socket(self, project: str) -> None:
        """Counts one more socket.  Raises QuotaExceeded, and counts none."""

    def remove_socket(self, project: str) -> None:
        """Forgets a socket that `add_socket` has counted."""


class NodeSessions:
    #: None: sockets are not limited
    quota: SocketQuota | None = None

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}
        #: those that are connected, by project and user
        self._by_user: dict[tuple[str, str], set[Session]] = {}
        #: those that are connected, by the roles of their users
        self._by_role: dict[tuple[str, str], set[Session]] = {}
        #: those that are connected, by the public id of their client
        self._by_client: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        """Iterates over a snapshot: sessions may come and go meanwhile."""
        return iter(tuple(self._by_id.values()))

    def add(self, session: Session) -> None:
        self._by_id[session.id] = session

    def add_connected(self, session: Session) -> int:
        """Registers the session under its user.  Returns how many sessions the user has now.

        Raises QuotaExceeded.
        """
        if self.quota is not None:
            self.quota.add_socket(session.context.project)
        sessions = self._by_user.setdefault((session.context.project, session.user), set())
        sessions.add(session)
        for role in session.roles:
            self._by_role.setdefault((session.context.project, role), set()).add(session)
        self._by_client[session.client] = session
        return len(sessions)

    def remove(self, session: Session) -> None:
        """Removes a session.  Idempotent."""
        self._by_id.pop(session.id, None)
        key = (session.context.project, session.user)
        sessions = self._by_user.get(key)
        if sessions is not None and session in sessions:
            if self.quota is not None:
                self.quota.remove_socket(session.context.project)
            self._by_client.pop(session.client, None)
            roles = [
                (self._by_role, (session.context.project, role)) for role in set(session.roles)
            ]
            for index, name in ((self._by_user, key), *roles):
                index[name].discard(session)
                if not index[name]:
                    del index[name]

    def get(self, id: str) -> Session | None:
        return self._by_id.get(id)

    def of_user(self, project: str, user: str) -> Collection[Session]:
        return self._by_user.get((project, user), ())

    def of_role(self, project: str, role: str) -> Collection[Session]:
        return self._by_role.get((project, role), ())

    def of_client(self, project: str, client: str) -> Session | None:
        """Returns the connection with this public id."""
        session = self._by_client.get(client)
        return session if session is not None and session.context.project == project else None

    def of_project(self, project: str) -> list[Session]:
        return [each for each in self._by_client.values() if each.context.project == project]

    @property
    def users(self) -> int:
        return len(self._by_user)

    def matching(self, who: ConnectionSelector) -> list[Session]:
        found = self._by_user.get((who.project, who.user), ())
        return [
            session
            for session in found
            if who.client in ("", session.client)
            and who.session in ("", session.id)
            and session.client not in who.except_clients
        ]
