# SPDX-License-Identifier: Apache-2.0
"""Who may do what: oslo.policy, with stock Zaqar's rule names.

The rules that are not in stock Zaqar are for what it does not have.  An operator overrides them in
``policy.yaml``; without it the defaults below apply.

oslo.policy is imported where it is used: it takes a fifth of the time of all other imports, and
commands that ask a service do without.
"""

from __future__ import annotations

import difflib
import functools
import json
import logging
import re
import time
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from oslo_config import cfg

from zaqar_redis import errors
from zaqar_redis.auth.identity import SIGNED_URL, Identity
from zaqar_redis.rules import is_topic

if TYPE_CHECKING:
    from oslo_policy import policy

LOG = logging.getLogger(__name__)

#: Seconds until a changed policy file counts; oslo.policy looks at it then.
RELOAD_INTERVAL = 5.0
#: A role in a rule.
_ROLE = re.compile(r"\brole:([^\s()]+)")
#: Decisions that a process remembers: some MB.
_DECISIONS_MAX = 65_536

_ADMIN, _READ, _WRITE = "rule:context_is_admin", "rule:admin_or_owner", "rule:admin_or_writer"
_ANYONE = ""

_BASE = {
    "context_is_admin": ("role:admin", "An administrator of the service."),
    "admin_or_owner": (
        "rule:context_is_admin or project_id:%(project_id)s",
        "Whoever belongs to the project of the resource.",
    ),
    "admin_or_writer": (
        "rule:context_is_admin or (project_id:%(project_id)s and (role:member or not role:reader))",
        "The same, but for those who may only read.",
    ),
}

_READING = {
    "queues": ("get_all", "get", "stats"),
    "messages": ("get_all", "get", "peek"),
    "claims": ("get_all", "get"),
    "subscription": ("get_all", "get"),
    "topics": ("get_all", "get", "stats"),
    "schedules": ("get_all", "get"),
    "quotas": ("get",),
    # "call" and "batch" call other methods, each of which has its own rule.
    "channels": (
        *("call", "batch", "presence", "presence_stats", "history", "channels", "info"),
        "topic_subscribers",
    ),
    "console": (
        *("session", "ticket", "overview", "queues", "history", "namespace"),
        "attributes",
    ),
}
_WRITING = {
    "queues": ("create", "update", "delete", "purge", "share"),
    "messages": ("create", "delete", "delete_all", "move"),
    "claims": ("create", "update", "delete"),
    "subscription": ("create", "update", "delete", "confirm", "replay", "test"),
    "topics": ("create", "update", "delete", "purge", "share"),
    "schedules": ("create", "delete"),
    "channels": ("publish", "broadcast", "send", "history_remove", "rpc", "token"),
}
_ADMINISTRATION = {
    "pools": ("get_all", "get", "create", "update", "delete", "locate", "rebalance"),
    "flavors": ("create", "update", "delete"),
    "health": ("get",),
    "quotas": ("get_all", "update", "delete"),
    "keys": ("get_all", "create", "update", "rotate", "delete"),
    # They show what belongs to no project, and other people's addresses.
    "console": ("installation", "connections", "projects"),
    # They act on connections of other people.
    "channels": (
        *("subscribe", "unsubscribe", "disconnect", "refresh"),
        *("topic_subscribe", "topic_unsubscribe"),
    ),
}
_OPEN = {"flavors": ("get_all", "get"), "ping": ("get",), "home": ("get",)}


#: Rules of what only administrators do, and of calls that may hold such.
ADMINISTRATIVE = frozenset(
    f"{kind}:{verb}" for kind, verbs in _ADMINISTRATION.items() for verb in verbs
) | {"channels:batch", "channels:call"}

#: Verbs that read what only administrators see.
_LOOKS = ("get", "get_all", "locate", "installation", "connections", "projects")
#: Rules of what services do all the time: they read, and exchange messages.
ROUTINE = frozenset(
    f"{kind}:{verb}"
    for kinds in (_READING, _OPEN)
    for kind, verbs in kinds.items()
    for verb in verbs
) | {
    *(action for action in ADMINISTRATIVE if action.partition(":")[2] in _LOOKS),
    *("messages:create", "messages:delete", "claims:create", "claims:update", "claims:delete"),
    *("channels:publish", "channels:broadcast", "channels:send", "channels:rpc"),
}


def list_rules() -> list[policy.RuleDefault]:
    """Returns all rules with their defaults, as oslo.policy's generators expect them."""
    from oslo_policy import policy

    rules = [policy.RuleDefault(name, *default) for name, default in _BASE.items()]
    for check, kinds in (
        (_READ, _READING),
        (_WRITE, _WRITING),
        (_ADMIN, _ADMINISTRATION),
        (_ANYONE, _OPEN),
    ):
        for kind, verbs in kinds.items():
            rules += [policy.RuleDefault(f"{kind}:{verb}", check) for verb in verbs]
    return rules


class PolicyEnforcer:
    """Decides whether an identity may act on a project, and remembers what it allowed."""

    def __init__(self, conf: cfg.ConfigOpts | None = None) -> None:
        """*conf*: with the group ``oslo_policy``; without it the defaults apply.

        Raises BadConfiguration when a policy file is wrong.
        """
        if conf is None:
            conf = cfg.ConfigOpts()
            conf([], default_config_files=[], default_config_dirs=[])
        self._conf = conf
        self._enforcer = _enforcer(conf)
        self._read = _file_times(conf)
        self._allowed: set[tuple[Identity, str, str, str | None]] = set()
        self._forget_at = 0.0

    @property
    def rules(self) -> Iterable[str]:
        """The names of all rules."""
        return self._enforcer.registered_rules

    @property
    def roles(self) -> frozenset[str]:
        """The roles that rules name, in lower case."""
        texts = map(str, self._enforcer.rules.values())
        return frozenset(role.lower() for text in texts for role in _ROLE.findall(text))

    def authorize(
        self, identity: Identity, action: str, project: str, queue: str | None = ""
    ) -> None:
        """Raises Forbidden unless the identity may do *action* to a resource of *project*.

        *queue*: the name of the queue that it is about; '': it is about none, and a right must be
        for all; None: the caller asks again when it knows.
        """
        now = time.monotonic()
        if now > self._forget_at or len(self._allowed) >= _DECISIONS_MAX:
            self._allowed.clear()
            self._forget_at = now + RELOAD_INTERVAL
            self._reload()
        if not identity.rights:
            queue = ""  # it makes no difference
        decision = identity, action, project, queue
        if decision in self._allowed:
            return
        if not self._is_allowed(identity, action, project):
            raise errors.Forbidden(why=_why(identity, action, project))
        if identity.rights and not _has_right(identity, action, queue):
            place = "" if queue is None else f" for {queue}" if queue else " for all queues"
            raise errors.Forbidden(why=f"The rights of this key do not include {action}{place}.")
        self._allowed.add(decision)

    def authorize_metadata(
        self, identity: Identity, project: str, metadata: Mapping[str, object]
    ) -> None:
        """Raises Forbidden if a queue with this would send dead letters where the identity may
        not post."""
        queue = metadata.get("_dead_letter_queue")
        if isinstance(queue, str):
            self.authorize(identity, "messages:create", project, queue)

    def authorize_subscription(
        self,
        identity: Identity,
        project: str,
        subscriber: str | None,
        options: Mapping[str, object] | None,
    ) -> None:
        """Raises Forbidden if a subscription with this would post where the identity may not."""
        needed: list[tuple[str, str]] = []
        scheme, _, name = (subscriber or "").partition(":")
        if scheme in ("queue", "topic"):
            needed.append(("messages:create", name if scheme == "queue" else f"topic:{name}"))
        elif scheme == "channel":
            needed.append(("channels:publish", name.removeprefix("$")))
        queue = (options or {}).get("dead_letter_queue")
        if isinstance(queue, str):
            needed.append(("messages:create", queue))
        # It says nothing about other queues, and its key may have no right for them.
        if needed and identity.strategy == SIGNED_URL:
            raise errors.Forbidden(
                why="A pre-signed URL is for subscribers outside the service, like https://..., "
                "without a dead_letter_queue."
            )
        for action, resource in needed:
            self.authorize(identity, action, project, resource)

    def _reload(self) -> None:
        """Reads changed files; if they are wrong, what was read before goes on to apply."""
        found = _file_times(self._conf)
        if found == self._read:
            return
        self._read = found
        try:
            self._enforcer = _enforcer(self._conf)
        except errors.BadConfiguration as error:
            LOG.error(  # its text says it all
                "the policy before its last change goes on to apply: %s",
                errors.reason(error),
                extra={"action": "policy_refused"},
            )

    def _is_allowed(self, identity: Identity, action: str, project: str) -> bool:
        target = {"project_id": project, "user_id": identity.user}
        credentials = {
            "user_id": identity.user,
            "project_id": identity.project,
            "roles": sorted(identity.roles),
            "is_admin": "admin" in identity.roles,
        }
        return bool(self._enforcer.enforce(action, target, credentials))


def _enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Returns an enforcer that has read the policy files.  Raises BadConfiguration."""
    from oslo_policy import policy

    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(list_rules())
    known = set(enforcer.registered_rules)
    files = _files(conf)
    for path in files:
        _check_file(path, known)
    try:
        enforcer.load_rules(force_reload=True)
        if files:
            enforcer.check_rules(raise_on_violation=True)
            for name in known:  # what that does not see, e.g. a rule that negates itself
                enforcer.enforce(name, {"project_id": "p"}, {"project_id": "p", "roles": []})
    except (policy.InvalidDefinitionError, TypeError, RecursionError) as error:
        raise _bad(f"rules that name each other in a circle, or no rule: {error}") from error
    except (cfg.Error, ValueError, OSError) as error:
        raise _bad(errors.reason(error)) from error
    enforcer.use_conf = False  # else it would read files again, wrong ones too
    return enforcer


def _files(conf: cfg.ConfigOpts) -> list[Path]:
    """Returns the policy files.  Raises BadConfiguration when one is named that does not exist."""
    group = conf.oslo_policy
    found = conf.find_file(group.policy_file)
    place = conf.get_location("policy_file", "oslo_policy")
    if found is None and place is not None and place.location.is_user_controlled:
        raise _bad(f"there is no file {group.policy_file}")
    files = [Path(found)] if found else []
    for name in group.policy_dirs:
        folder = conf.find_file(name)
        files += sorted(Path(folder).glob("*")) if folder else []
    return files


def _file_times(conf: cfg.ConfigOpts) -> list[tuple[Path, int, int]]:
    """Returns the policy files, with time and size of each; empty when one is missing."""
    try:
        stats = [(path, path.stat()) for path in _files(conf)]
    except (errors.BadConfiguration, OSError):
        return []
    return [(path, stat.st_mtime_ns, stat.st_size) for path, stat in stats]


def _check_file(path: Path, known: set[str]) -> None:
    """Raises BadConfiguration for what oslo.policy takes, and nobody can have meant."""
    from oslo_policy import policy

    try:
        content = policy.parse_file_contents(path.read_bytes())
    except (ValueError, OSError) as error:
        raise _bad(f"{path}: {errors.reason(error)}") from error
    if not isinstance(content, dict):
        raise _bad(f"{path}: it must have rules by name")
    for name, text in content.items():
        if not isinstance(text, str):
            raise _bad(f'{path}: the rule "{name}" must be a text')
        # Names without a colon are the operator's own, for others to refer to.
        if name not in known and ":" in name:
            near = difflib.get_close_matches(name, known, 1)
            meant = f'; did you mean "{near[0]}"?' if near else ""
            raise _bad(f'{path}: there is no rule "{name}"{meant}')
        # Of what it cannot parse, oslo.policy makes the rule that allows nothing.
        [parsed] = policy.Rules.load(json.dumps({name: text})).values()
        if str(parsed) == "!" and text.strip() != "!":
            raise _bad(f'{path}: the rule "{name}" cannot be read: {text}')


def _bad(why: str) -> errors.BadConfiguration:
    return errors.BadConfiguration(f"[oslo_policy] policy_file: {why}")


def _why(identity: Identity, action: str, project: str) -> str:
    if project != identity.project:
        return f"You do not belong to the project {project}."
    roles = ", ".join(sorted(identity.roles)) or "none"
    return f"The policy {action} does not allow this to your roles ({roles})."


def _has_right(identity: Identity, action: str, queue: str | None) -> bool:
    return any(
        _matches(right.actions, action) and (queue is None or _covers(right.queues, queue))
        for right in identity.rights
    )


def _covers(pattern: str, queue: str) -> bool:
    # "*orders" is about queues, and not about the topic "orders", which is stored as one.
    same_kind = pattern == "*" or is_topic(pattern) == is_topic(queue)
    return same_kind and fnmatchcase(queue, pattern)


@functools.lru_cache(maxsize=4096)
def _matches(globs: tuple[str, ...], action: str) -> bool:
    return any(fnmatchcase(action, glob) for glob in globs)
