# SPDX-License-Identifier: Apache-2.0
"""The sessions of one node, found by what others call them."""

from __future__ import annotations

from collections.abc import Iterator

from zaqar_redis.realtime.control import Who
from zaqar_redis.realtime.session import Session


class Sessions:
    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}
        #: those that are connected, by project and user
        self._by_user: dict[tuple[str, str], set[Session]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        """Of all there are now, whatever happens to them meanwhile."""
        return iter(tuple(self._by_id.values()))

    def add(self, session: Session) -> None:
        self._by_id[session.id] = session

    def connected(self, session: Session) -> int:
        """Note its user.  How many of this user there are now."""
        known = self._by_user.setdefault((session.world.project, session.user), set())
        known.add(session)
        return len(known)

    def remove(self, session: Session) -> None:
        """Idempotent."""
        self._by_id.pop(session.id, None)
        whose = (session.world.project, session.user)
        known = self._by_user.get(whose)
        if known is not None:
            known.discard(session)
            if not known:
                del self._by_user[whose]

    def get(self, id: str) -> Session | None:
        return self._by_id.get(id)

    @property
    def users(self) -> int:
        return len(self._by_user)

    def meant(self, who: Who) -> list[Session]:
        found = self._by_user.get((who.project, who.user), ())
        return [
            session
            for session in found
            if who.client in ("", session.client)
            and who.session in ("", session.id)
            and session.client not in who.except_clients
        ]
