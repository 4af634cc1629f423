# SPDX-License-Identifier: Apache-2.0
"""Who asks: a person or a program, in a project, with roles."""

from __future__ import annotations

from zaqar_redis.records import Record

READER, MEMBER, ADMIN = "reader", "member", "admin"
#: Keystone's implied roles: whoever has the one has the others.
_IMPLIED = {ADMIN: (MEMBER, READER), MEMBER: (READER,)}


#: Strategies whose identities belong to no project: without authentication it is the one that a
#: request names, and the key of the server API is for all.
NONE, API_KEY = "none", "api_key"
#: That of whoever has a pre-signed URL.
SIGNED_URL = "signed-url"
_OF_NO_PROJECT = (NONE, API_KEY)


class Right(Record, frozen=True):
    """What an identity may do, beside what its roles allow: some actions on some queues."""

    #: a glob of queues' names; of those of topics if it begins as they do, and of all if it is *
    queues: str
    #: globs of policy rules, e.g. ``messages:*``
    actions: tuple[str, ...]


class Identity(Record, frozen=True, eq=False):
    """Who sends a request.  Two are equal if they are the same object."""

    #: the project that it belongs to
    project: str
    #: id of the person or the program
    user: str
    roles: frozenset[str]
    #: restricts what the roles allow; empty: it does not
    rights: tuple[Right, ...] = ()
    #: name of the strategy that has found it
    strategy: str = ""
    #: id of the access key; "": it is none
    credential: str = ""

    def is_foreign_to(self, project: str) -> bool:
        """Returns whether it is an administrator who belongs to another project."""
        return (
            ADMIN in self.roles and self.project != project and self.strategy not in _OF_NO_PROJECT
        )


#: Who has not been found out.
NOBODY = Identity("", "", frozenset())


def with_implied(roles: frozenset[str]) -> frozenset[str]:
    """Returns the roles with those that they imply."""
    return roles.union(*(_IMPLIED.get(role, ()) for role in roles))
