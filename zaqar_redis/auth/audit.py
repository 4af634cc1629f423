# SPDX-License-Identifier: Apache-2.0
"""The audit log: who did what to which resource, and what came of it.

What administrators do is recorded always, refusals included; everything else by option.  Without a
file of its own it is a part of the service's log, which what is routine would flood.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import logging.handlers
import os
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from zaqar_redis import errors
from zaqar_redis.auth.identity import Identity
from zaqar_redis.auth.policy import ADMINISTRATIVE, ROUTINE
from zaqar_redis.records import Record

_LOGGER = logging.getLogger("zaqar_redis.audit")


class AuditSettings(msgspec.Struct, frozen=True):
    audit_file: Annotated[
        str,
        "File that audit events are appended to, one JSON object in each line; it may be moved "
        "away at any time. Empty: they go to standard error, between the lines of the log; there, "
        "what administrators read, and the messages that they post, take and publish in other "
        "projects than their own, are recorded only if they are refused.",
    ] = msgspec.field(default="", name="path")
    audit_format: Annotated[
        Literal["json", "cadf"],
        "Fields of an event: json has those of this service, cadf those of DMTF's Cloud Auditing "
        "Data Federation, which needs pycadf.",
    ] = msgspec.field(default="json", name="format")
    audit_actions: Annotated[
        tuple[str, ...],
        "Policy rules whose requests are recorded, too, e.g. queues:delete, or globs of them. What "
        "administrators change is recorded in any case.",
    ] = msgspec.field(default=(), name="actions")


class AuditEvent(Record, frozen=True):
    #: in UTC, ISO 8601
    time: str
    request_id: str
    #: of the service that the request came from; else ""
    global_request_id: str
    #: name of the strategy that has found who sent it; "": nobody was found
    strategy: str
    user: str
    #: id of the access key, or ""
    credential: str
    #: that the user belongs to
    project: str
    roles: list[str]
    #: the policy rule
    action: str
    method: str
    path: str
    #: that the resource belongs to
    target_project: str
    #: HTTP status of the answer
    status: int
    outcome: Literal["success", "failure", "denied"]


class _AuditFile(logging.handlers.WatchedFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        raise  # it is called where an exception is handled


class AuditLog:
    """What cannot be written to the file goes to the log of the service: no event is lost."""

    def __init__(self, settings: AuditSettings, *, delay: bool = False) -> None:
        """*delay*: the file is opened for the first event.

        Raises BadConfiguration when the file cannot be opened, or pycadf is missing.
        """
        globs = settings.audit_actions
        self._has_file = bool(settings.audit_file)
        self._is_asked_for: Callable[[str], bool] = functools.lru_cache(maxsize=1024)(
            lambda action: any(fnmatchcase(action, glob) for glob in globs)
        )
        self._encode = _cadf_encoder() if settings.audit_format == "cadf" else msgspec.json.encode
        self._handler: logging.Handler
        try:
            self._handler = (
                _AuditFile(settings.audit_file, delay=delay)
                if settings.audit_file
                else logging.StreamHandler()
            )
        except OSError as error:
            raise errors.BadConfiguration(f"[audit] path: {errors.reason(error)}") from error
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def covers(self, action: str) -> bool:
        """Returns whether requests with an action are recorded, whoever sends them."""
        return action in ADMINISTRATIVE or self._is_asked_for(action)

    def record(self, *, identity: Identity, action: str, status: int, **request: str) -> None:
        """Appends an event, but to standard error none of what is routine, unless asked for.

        *request*: what else of it `AuditEvent` has.
        """
        outcome: Literal["success", "failure", "denied"] = (
            "success" if status < 400 else "denied" if status in (401, 403) else "failure"
        )
        reads = action in ROUTINE or request.get("method") in ("GET", "HEAD")
        is_routine = reads and outcome != "denied"
        if is_routine and not self._has_file and not self._is_asked_for(action):
            return
        event = AuditEvent(
            time=datetime.now(UTC).isoformat(),
            strategy=identity.strategy,
            user=identity.user,
            credential=identity.credential,
            project=identity.project,
            roles=sorted(identity.roles),
            action=action,
            status=status,
            outcome=outcome,
            **request,
        )
        line = self._encode(event).decode()
        try:
            self._handler.handle(
                logging.LogRecord(_LOGGER.name, logging.INFO, __file__, 0, line, None, None)
            )
        except OSError as error:
            _LOGGER.error(  # its text says it all
                "the audit log cannot be written: %s: %s",
                errors.reason(error),
                line,
                extra={"action": "audit_failed"},
            )

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written was reported
            self._handler.close()


def check_file(path: str) -> None:
    """Raises BadConfiguration when events cannot be appended to the file.  Creates nothing."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise errors.BadConfiguration(f"[audit] path: No such file or directory: {folder}")
    if Path(path).is_dir() or not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise errors.BadConfiguration(f"[audit] path: {path} cannot be written")


def _cadf_encoder() -> Callable[[AuditEvent], bytes]:
    try:
        from pycadf import cadftaxonomy, cadftype, event, reason, resource, tag
    except ImportError:
        raise errors.BadConfiguration(
            "[audit] format: cadf needs pycadf, of the extra openstack: pip install '.[openstack]'"
        ) from None
    # It wants UUIDs, and says so for each event; ids of keys and paths of resources are none.
    warnings.filterwarnings("ignore", "Invalid uuid", module="pycadf")
    actions = {
        "GET": "read",
        "HEAD": "read",
        "PUT": "create",
        "POST": "create",
        "PATCH": "update",
        "DELETE": "delete",
    }

    def encode(given: AuditEvent) -> bytes:
        kind, _, verb = given.action.partition(":")
        found = event.Event(
            eventType=cadftype.EVENTTYPE_ACTIVITY,
            action=f"{actions.get(given.method, cadftaxonomy.UNKNOWN)}/{kind}/{verb}",
            outcome=cadftaxonomy.OUTCOME_SUCCESS
            if given.outcome == "success"
            else cadftaxonomy.OUTCOME_FAILURE,
            initiator=resource.Resource(
                typeURI=cadftaxonomy.ACCOUNT_USER, id=given.user or "unknown", name=given.user
            ),
            target=resource.Resource(
                typeURI=f"service/messaging/{kind}", id=given.path, name=given.target_project
            ),
            observer=resource.Resource(typeURI="service/messaging", id="zaqar-redis"),
        )
        found.add_tag(tag.generate_name_value_tag("request_id", given.request_id))
        found.add_tag(tag.generate_name_value_tag("project_id", given.project or "none"))
        found.add_tag(tag.generate_name_value_tag("strategy", given.strategy or "none"))
        if given.credential:
            found.add_tag(tag.generate_name_value_tag("credential", given.credential))
        found.add_tag(tag.generate_name_value_tag("roles", ",".join(given.roles) or "none"))
        if given.global_request_id:
            found.add_tag(tag.generate_name_value_tag("global_request_id", given.global_request_id))
        found.reason = reason.Reason(reasonType="HTTP", reasonCode=str(given.status))
        document = found.as_dict() | {"requestPath": given.path}
        return msgspec.json.encode(document)

    return encode
