# SPDX-License-Identifier: Apache-2.0
"""Who asks: a person or a program, in a project, with roles."""

from __future__ import annotations

from zaqar_redis.records import Record

READER, MEMBER, ADMIN = "reader", "member", "admin"
#: Keystone's implied roles: whoever has the one has the others.
_IMPLIED = {ADMIN: (MEMBER, READER), MEMBER: (READER,)}


class Right(Record, frozen=True):
    """What an identity may do, beside what its roles allow: some actions on some queues."""

    #: a glob of queues' names
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


#: Who has not been found out.
NOBODY = Identity("", "", frozenset())


def with_implied(roles: frozenset[str]) -> frozenset[str]:
    """Returns the roles with those that they imply."""
    return roles.union(*(_IMPLIED.get(role, ()) for role in roles))
