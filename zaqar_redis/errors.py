# SPDX-License-Identifier: Apache-2.0
"""Every error: its text, its HTTP status, its code, whether to try again.

The *message* of a class is its text; ``{fields}`` are filled in when it is
raised.  Titles are those that Zaqar's own handlers use.  The docstring of a class describes
it in OpenAPI; without one, its message does.
"""

from __future__ import annotations

from typing import ClassVar

from zaqar_redis.records import MoveLock


def reason(error: BaseException) -> str:
    """Returns one line about an error: its text, or its class when it has none."""
    if text := " ".join(str(error).split()):
        return text
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__


def at_message(place: int, number: int) -> str:
    """Returns how an error names one of that *number* of messages of a request."""
    return f" - at `$.messages[{place}]`" if number > 1 else ""


class Problem(Exception):
    """An error that the caller receives."""

    message: ClassVar[str] = "Something went wrong."
    status: ClassVar[int] = 500
    code: ClassVar[int] = 1000
    title: ClassVar[str] = "Internal server error"
    #: seconds after which the same request may succeed; None: it will not
    retry: int | None = None

    def __init__(self, **fields: object) -> None:
        self.fields = fields
        self.text = self.message.format_map(fields)
        super().__init__(self.text)


class BadRequest(Problem):
    """Something in the request is missing or invalid; the description says what."""

    message = "{why}"
    status, code, title = 400, 1100, "Invalid API request"


class BadBody(BadRequest):
    message = "{why}"
    code, title = 1101, "Invalid request body"


class BadParameter(BadRequest):
    message = 'The value of the parameter "{name}" is invalid: {why}'
    code, title = 1102, "Invalid parameter"


class MissingHeader(BadRequest):
    message = 'The "{name}" header is required.'
    code, title = 1103, "Missing header value"


class BadClientId(BadRequest):
    message = "{why}"
    code, title = 1104, "Wrong UUID value"


class MissingProject(BadRequest):
    message = "The header X-Project-ID was missing."
    code, title = 1105, "Project-Id Missing"


class EmptyProject(BadRequest):
    message = "The header X-Project-ID may not be empty."
    code, title = 1106, "Empty project header not allowed"


class BadQueue(BadRequest):
    message = "{why}"
    code, title = 1107, "Invalid queue identification"


class BadTopic(BadRequest):
    message = "{why}"
    code, title = 1109, "Invalid topic identification"


class BadContentType(BadRequest):
    message = (
        "The content type application/x-www-form-urlencoded, which curl -d sends by itself, is not "
        'accepted: add the header "Content-Type: application/json".'
    )
    code, title = 1108, "Invalid Content-Type"


class ClaimExpired(BadRequest):
    message = "The specified claim does not exist or has expired."
    code, title = 1110, "Unable to delete"


class MessageNotClaimed(BadRequest):
    message = "A claim was specified, but the message is not currently claimed."
    code, title = 1111, "Unable to delete"


class IdempotencyKeyReused(Problem):
    message = "The Idempotency-Key was used before, with another body, content type or parameter."
    status, code, title = 422, 1120, "Idempotency-Key reused"


class Unauthenticated(Problem):
    """The request has no valid credential."""

    message = "{why}"
    status, code, title = 401, 1210, "Unauthorized"


class Forbidden(Problem):
    """The policy does not allow this to whoever sends the request."""

    message = "{why}"
    status, code, title = 403, 1200, "Not authorized"


class QuotaExceeded(Forbidden):
    """A quota of the project does not allow it; the description names it."""

    message = (
        'The quota "{quota}" of the project {project} is {limit}, and {used} are used; this would '
        "add {more}."
    )
    code, title = 1203, "Quota exceeded"
    # What is stored is measured as often.
    retry: int | None = 10

    def __init__(self, *, limit: int, more: int, **fields: object) -> None:
        """*limit*: of the quota.  *more*: than *limit*: it will never fit."""
        super().__init__(limit=limit, more=more, **fields)
        if more > limit:
            self.retry = None


class PostRefused(Forbidden):
    """The owner of the queue does not let it take more messages at present."""

    message = "{why}"
    code, title = 1207, "Post refused"


class QueueFull(PostRefused):
    message = (
        'The queue {queue} takes at most {limit} {what} ("_max_{what}"), and has no room for '
        "{more} more."
    )
    code, title = 1205, "Queue full"
    retry: int | None = 10

    def __init__(self, *, limit: int, more: int, **fields: object) -> None:
        """*more*: than *limit*: they will never fit.  Also *what*: messages or bytes."""
        super().__init__(limit=limit, more=more, **fields)
        if more > limit:
            self.retry = None


class QueuePaused(PostRefused):
    message = 'Posts to the queue {queue} are paused ("_paused").'
    code, title, retry = 1206, "Queue paused", 10


class TooManySubscriptions(Forbidden):
    """A queue or topic has as many subscriptions as the operator allows."""

    message = (
        "The {queue} has {most} subscriptions already, as many as [transport] max_subscriptions "
        "allows: delete some that are not needed."
    )
    code, title = 1204, "Too many subscriptions"


class MessageClaimed(Forbidden):
    message = "This message is claimed; it cannot be deleted without a valid claim ID."
    code, title = 1201, "Unable to delete"


class ClaimedByOther(Forbidden):
    message = "This message is held by another claim."
    code, title = 1202, "Unable to delete"


class NotFound(Problem):
    """What the request names does not exist."""

    message = "{why}"
    status, code, title = 404, 1300, "Not found"


class BadSignature(NotFound):
    """The pre-signed URL in the headers does not open this."""

    message = "The pre-signed URL is not valid for this resource."
    code, title = 1301, "404 Not Found"


class NotAcceptable(Problem):
    """Nothing that the header Accept allows can be served."""

    message = "Only {served} can be served."
    status, code, title = 406, 1400, "Not acceptable"

    def __init__(self, served: str = "application/json") -> None:
        super().__init__(served=served)


class Conflict(Problem):
    """The change does not fit what is there, or others make changes at the same time."""

    message = "{why}"
    status, code, title = 409, 1500, "Resource conflict"


class ContentTooLarge(Problem):
    message = "{why}"
    status, code, title = 413, 1610, "Content too large"


class UnsupportedMediaType(Problem):
    """The body must have the media type that is described here."""

    message = "{why}"
    status, code, title = 415, 1600, "415 Unsupported Media Type"


class UnsupportedContentCoding(UnsupportedMediaType):
    """The body is encoded, as the header Content-Encoding says."""

    message = "Encoded bodies are not accepted: send it as it is, without Content-Encoding."
    code = 1601


class TooManyRequests(Problem):
    """The project sends more requests than its quota allows."""

    message = (
        'The quota "requests" of the project {project} is {limit} a second. Please try again in '
        "{seconds} s."
    )
    status, code, title, retry = 429, 1800, "Too many requests", 1

    def __init__(self, *, seconds: int, **fields: object) -> None:
        """*seconds*: until a request is let through."""
        super().__init__(seconds=seconds, **fields)
        self.retry = seconds


class TooManyAttempts(TooManyRequests):
    """There were too many failed attempts with the access key."""

    message = (
        "There were too many failed attempts with this access key. Please try again in {seconds} s."
    )
    code, title = 1801, "Too many failed attempts"


class NoSuchPool(BadRequest):
    message = 'There is no pool "{name}" that takes queues.'
    code = 1123


class NoSuchFlavor(BadRequest):
    message = 'The value of "_flavor" must name a flavor that has pools; "{name}" is none.'
    code = 1121


class LimitExceeded(BadRequest):
    message = "There may be at most {most} {what}."
    code = 1122


class SubscriberTaken(Conflict):
    """The subscriber has another subscription, or has confirmed the one that it has."""

    message = 'The subscriber "{subscriber}" has subscribed to this queue already.'
    code = 1502


class PoolInUse(Problem):
    """The pool still has queues; drain it first."""

    message = 'The pool "{pool}" still has queues ({count}); drain it first.'
    status, code, title = 403, 1320, "Unable to delete"


class FlavorEmptied(Problem):
    """The pool is the last one of a flavor."""

    message = 'The flavor "{flavor}" would have no pool left.'
    status, code, title = 403, 1321, "Unable to delete"


class UriTaken(Problem):
    """The store of `uri` is that of another pool."""

    message = 'The value of "uri" names the store of the pool "{pool}".'
    status, code, title = 409, 1420, "Conflict"


class StoreLacksQueues(Problem):
    """The store of `uri` has none of the pool's queues."""

    message = (
        'The value of "uri" names a store that has none of the queues ({count}) of the pool '
        '"{pool}"; drain the pool first, or copy its store.'
    )
    status, code, title = 409, 1423, "Conflict"


class StoreOwned(Problem):
    """The store of `uri` belongs to another installation or has queues of its own, and
    `adopt` is not set."""

    message = (
        'The value of "uri" names a store {whose}. If nobody else uses it, take it over with '
        '"adopt": true (pool create --adopt); its queues come along.'
    )
    status, code, title = 409, 1424, "Conflict"


class FormatTooNew(Problem):
    """A newer release has raised the format of a store above what this one can work with."""

    message = (
        "The store {store} has format {version}, and releases need to know format {needs}; this "
        "one knows formats up to {known}. Use the release that has raised the format, or a newer "
        "one."
    )
    status, code, title = 409, 1425, "Conflict"


class CannotMove(Problem):
    message = 'The queue "{queue}" cannot move: {why}.'
    status, code, title = 409, 1422, "Conflict"


class QueueNotInPool(Problem):
    message = 'The queue "{queue}" lives in the pool "{pool}".'
    status, code, title = 409, 1421, "Conflict"


class Unavailable(Problem):
    """A store is unavailable or the service overloaded; the description says which."""

    message = "{why}"
    status, code, title, retry = 503, 1700, "Service temporarily unavailable", 1


class StoreUnavailable(Unavailable):
    message = (
        "The store {store} cannot be reached at the moment. Please try again in a few seconds."
    )
    code = 1701

    def __init__(self, store: str = "of this service", **fields: object) -> None:
        """*store*: the name of its pool, or its URI without a password."""
        super().__init__(store=store, **fields)


class StoreTimeout(StoreUnavailable):
    message = (
        "The store {store} did not answer in time; the operation may have been done all the same."
    )
    code = 1702


class NotReplicated(StoreUnavailable):
    message = (
        "The store {store} has done the operation, but fewer than {replicas} replicas confirmed it "
        "in time (ack_replicas): it may be lost if the store fails now. Repeat a post with its "
        "Idempotency-Key; a claim that was made ends with its TTL."
    )
    code = 1712


class StoreRefuses(StoreUnavailable):
    """The store answers, but does not do it now."""

    message = "The store {store} refuses this at the moment: {why}. Please try again later."
    code = 1710

    def __init__(self, store: str, why: str = "", **fields: object) -> None:
        """*why*: what it is busy with, or what it lacks."""
        super().__init__(store, why=why, **fields)


class StoreInCluster(StoreRefuses):
    """A node of a Redis Cluster is used like a Redis that has all keys."""

    message = (
        "The store {store} is one node of a Redis Cluster and does not have all keys. Its URI must "
        "begin with redis+cluster://, or rediss+cluster:// with TLS."
    )
    code = 1715


class StoreFull(StoreUnavailable):
    """The store has no memory for more; claims, deletions and listings go on."""

    message = (
        "The store {store} is full: it takes nothing new until messages are deleted or expire, or "
        "its memory limit is raised. Claims and deletions go on."
    )
    status, code, title = 507, 1713, "Insufficient storage"
    # Messages are deleted one by one: nobody gains by coming back each second.
    retry = 10


class MoveLocked(StoreUnavailable):
    """The queue must not be used in this store now, because of its move lock."""

    message = "The queue is being moved to another store. Please try again in a second."
    code = 1705

    def __init__(self, move_lock: MoveLock | None = None) -> None:
        """*move_lock*: None when the lock was lost meanwhile."""
        super().__init__()
        self.move_lock = move_lock


class StoresUnavailable(StoreUnavailable):
    message = "These stores do not answer at the moment: {names}."
    code = 1706


class BusUnavailable(StoreUnavailable):
    """*store*: the URI of the bus, without a password."""

    message = "The bus {store} cannot be reached at the moment. Please try again in a few seconds."
    code = 1711


class ServiceStopping(Unavailable):
    message = "This service is about to stop; send requests to another one."
    code = 1709


class KeyNotPublished(StoreUnavailable):
    message = "The key that the token names is not published. That may change soon."
    code = 1708


class Overloaded(Unavailable):
    message = (
        "Too many requests are waiting for the store {store}. Please try again in a few seconds."
    )
    code = 1703


class TooManyInFlight(Unavailable):
    message = (
        "{whose} has {most} requests that are not answered yet, as many as [server] {option} "
        "allows in a worker. Please try again in a second."
    )
    code = 1714


class TooManyLongPolls(Unavailable):
    message = 'Too many requests wait for messages already; try again, or without "wait".'
    code = 1704


class EncryptionKeyMissing(Problem):
    message = (
        "This is encrypted, or its queue wants that, and [transport] message_encryption_key is not "
        "set here: its operator has to set it."
    )
    code = 1002


class EncryptionRequired(Exception):
    """The queue wants encrypted bodies, and these are not."""


class DedupIdsRequired(Exception):
    """The queue identifies messages by their bodies, and not all of these have a `dedup`."""


class BadConfiguration(Exception):
    """An option or a URI cannot be used; the text names it."""
