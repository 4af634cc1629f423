# SPDX-License-Identifier: Apache-2.0
"""All metrics of the service; doc/metrics.md is made from this table."""

from __future__ import annotations

from zaqar_redis.metrics.values import (
    Counter,
    DurationHistogram,
    Gauge,
    Histogram,
    Metric,
    Snapshot,
    StoredCounter,
)

_OF_QUEUE = ("project", "queue")

# Requests

HTTP_REQUESTS = Counter("http_requests", "Requests answered.", ("method", "route", "status"))
HTTP_DURATIONS = DurationHistogram(
    "http_request_duration_seconds",
    "Time from a whole request to its answer, long polls included; of the routes for messages and "
    "claims a sample.",
    ("method", "route", "status"),
)
HTTP_CONNECTIONS = Gauge("http_connections", "Open connections, sockets not included.")
HTTP_REJECTED = Counter(
    "http_connections_rejected",
    "Connections ended for what came before a request was complete: 400 is no HTTP, 408 too slow, "
    "431 too long a head, 503 too many connections.",
    ("status",),
    known=("400", "408", "431", "503"),
)
LONG_POLLS = Gauge("long_polls_waiting", "Requests that wait for messages.")
REQUESTS_IN_FLIGHT = Gauge(
    "requests_in_flight",
    "Requests that are not answered yet, without those that wait for messages.",
)
REQUESTS_REFUSED = Counter(
    "requests_refused",
    "Requests refused because the worker, or the project in it, has too many in flight.",
    ("bound",),
    known=("worker", "project"),
)
AUTH_REFUSED = Counter(
    "auth_refusals",
    "Requests and actions refused for who sends them: unauthenticated is 401, forbidden 403.",
    ("reason",),
    known=("unauthenticated", "forbidden"),
)
QUOTA_REFUSED = Counter(
    "quota_refusals",
    "Requests and sockets refused by a quota, by the quota.",
    ("quota",),
    known=("requests", "queues", "messages", "bytes", "sockets"),
)

# Messages

POSTED = Counter("messages_posted", "Messages posted through this service.")
CLAIMED = Counter("messages_claimed", "Messages claimed or popped through this service.")
SCHEDULED_POSTS = Counter(
    "scheduled_posts",
    "Posts of schedules that this process made, or that were refused.",
    ("outcome",),
    known=("posted", "refused"),
)
CLAIMS = Counter("claims", "Claims granted, and pops that found messages.")

# Stores

STORE_UP = Gauge(
    "store_up",
    "1 if the worker is connected to the store, 0 if not.",
    ("store",),
    per_worker=True,
    least=True,
)
REPLICA_UP = Gauge(
    "replica_up",
    "The same for the replica that the worker reads from; while it is away, the primary is asked.",
    ("store",),
    per_worker=True,
    least=True,
)
STORE_MEMORY_USED = Gauge(
    "store_memory_used_bytes",
    "Bytes of memory that the Redis of a pool uses; default: the service's own store.",
    ("store",),
)
STORE_MEMORY_LIMIT = Gauge(
    "store_memory_limit_bytes",
    "Its limit (maxmemory); without one, the memory of its machine.",
    ("store",),
)
STORE_LOST = Counter(
    "store_connections_lost",
    "Connections to a store that were lost; not attempts to connect that failed.",
    ("store",),
)
STORE_NOT_REPLICATED = Counter(
    "store_not_replicated",
    "Writes that too few replicas confirmed in time.",
    ("store",),
)
STORE_FULL = Counter(
    "store_full_refusals",
    "Posts and other changes refused because the store is full.",
    ("store",),
)
STORE_IN_FLIGHT = Gauge("store_commands_in_flight", "Commands without an answer yet.", ("store",))
STORE_CALLS = DurationHistogram(
    "store_call_duration_seconds",
    "Time from the write of a command to its reply, by script or command; a sample.",
    ("store", "verb"),
)
STORE_BATCH = Histogram(
    "store_batch_commands",
    "Commands that left in one write; a sample.",
    ("store",),
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
)

# Channels and sockets

SOCKETS = Gauge(
    "websocket_connections",
    "Open connections: channels (WebSocket, SSE and HTTP streams), and the WebSocket API.",
    ("api",),
)
DISCONNECTS = Counter(
    "client_disconnects",
    "Connections of channels and of the WebSocket API that the service has ended, by the code sent "
    "to their clients; other: a code chosen by an operator or a backend.",
    ("code",),
)
SUBSCRIPTIONS = Gauge("channel_subscriptions", "Subscriptions of clients to channels.")
PUBLICATIONS = Counter("channel_publications", "Publications accepted by this service.")
DELIVERIES = Counter(
    "channel_deliveries", "Publications given to subscribers, one for each of them."
)
RECOVERIES = Counter(
    "channel_recoveries",
    "Subscriptions that asked for missed publications: recovered if all of them were there.",
    ("outcome",),
    known=("recovered", "lost"),
)

# Buses, and the routing service over them

ROUTED = Counter(
    "routing_deliveries",
    "Messages of the routing service given to connections, by route.",
    ("route",),
    known=("user", "role", "broadcast", "connection", "topic"),
)

BUS_UP = Gauge(
    "bus_up",
    "1 if the worker receives what is sent over the bus, 0 if not.",
    ("bus",),
    per_worker=True,
    least=True,
)
BUS_LOST = Counter("bus_connections_lost", "Connections to a bus that were lost.", ("bus",))
BUS_SENT = Counter("bus_messages_sent", "Messages sent over a bus.", ("bus",))
BUS_RECEIVED = Counter("bus_messages_received", "Messages received over a bus.", ("bus",))
BUS_DROPPED = Counter(
    "bus_messages_dropped",
    "Lost messages. backlog: too many waited to be sent; unavailable: there was no "
    "connection; too_large: the broker takes no message of that size; missed: this worker should "
    "have received them, but a slow or lost connection dropped them.",
    ("bus", "reason"),
)

# Subscriptions of queues and topics

NOTIFICATIONS = Counter(
    "notifications",
    "Attempts to deliver messages to subscribers. delivered; retry: tried again later; refused: "
    "given up at once; gone: the subscription has ended.",
    ("target", "outcome"),
)
NOTIFIED = Counter("notified_messages", "Messages delivered to subscribers.", ("target",))
GIVEN_UP = Counter(
    "notification_given_up_messages",
    "Messages no longer delivered to a subscriber: it refused them, their attempts are over, "
    "or they expired while the process had them.",
    ("target",),
)
NOTIFICATION_DURATIONS = DurationHistogram(
    "notification_duration_seconds",
    "Time of an attempt to deliver messages to a subscriber.",
    ("target",),
)
CIRCUITS_OPENED = Counter(
    "notification_circuits_opened",
    "Pauses of subscribers that failed too often.",
    ("target",),
)
FAILING_SUBSCRIPTIONS = Gauge(
    "notification_failing_subscriptions",
    "Subscriptions to which every attempt of the process has failed for five minutes.",
)
WAITING_SUBSCRIPTIONS = Gauge(
    "notification_waiting_subscriptions",
    "Subscriptions whose messages wait until the process may make another attempt.",
)
NOTIFIED_SOURCES = Gauge(
    "notification_sources", "Queues and topics whose messages the process delivers at the moment."
)

# Moves

MOVES_RUNNING = Gauge("moves_running", "Queues that are being moved to another pool.")
MOVES = Counter("moves", "Moves that have ended.", ("outcome",), known=("done", "failed"))
MOVED = Counter("moved_messages", "Messages in queues that have moved.")

# Processes

LOG_EVENTS = Counter(
    "log_events",
    "Lines written to the log, including gunicorn's and uvicorn's.",
    ("level",),
    known=("debug", "info", "warning", "error", "critical"),
)
LOOP_LAG = Histogram(
    "event_loop_lag_seconds",
    "Delay of timers of the event loop, measured some ten times a second.",
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
WORKER_CPU = Counter("worker_cpu_seconds", "CPU time, of user and system.", per_worker=True)
WORKER_MEMORY = Gauge("worker_resident_memory_bytes", "Resident memory.", per_worker=True)
WORKER_FILES = Gauge("worker_open_fds", "Open file descriptors.", per_worker=True)
WORKER_FILES_MAX = Gauge(
    "worker_max_fds", "Most file descriptors that it may have.", per_worker=True
)
WORKER_AGE = Gauge(
    "worker_report_age_seconds",
    "Seconds since the worker's last report; it reports each second unless it is stuck.",
    per_worker=True,
)
WORKERS = Gauge("workers", "Workers.")
WORKER_EXITS = Counter("worker_exits", "Workers that have ended, for any reason.")
BUILD = Gauge("build_info", "1; the labels name the running release.", ("version", "python"))

# Chosen queues

QUEUE_MESSAGES = Gauge(
    "queue_messages",
    "Messages in the queue: free (can be claimed now), claimed, delayed.",
    (*_OF_QUEUE, "state"),
)
QUEUE_OLDEST = Gauge(
    "queue_oldest_message_age_seconds", "Age of the oldest message; 0 if there is none.", _OF_QUEUE
)
QUEUE_BYTES = Gauge(
    "queue_bytes", "Bytes of the messages as they are stored, by a sample of 32 of them.", _OF_QUEUE
)
QUEUE_COUNTERS = {
    "posted": StoredCounter("queue_posted", "Messages posted, by any service.", _OF_QUEUE),
    "claimed": StoredCounter("queue_claimed", "Messages claimed or popped.", _OF_QUEUE),
    "released": StoredCounter(
        "queue_released", "Messages released by their claim, or whose claim expired.", _OF_QUEUE
    ),
    "deleted": StoredCounter("queue_deleted", "Messages deleted.", _OF_QUEUE),
    "expired": StoredCounter("queue_expired", "Messages whose lifetime has ended.", _OF_QUEUE),
    "purged": StoredCounter("queue_purged", "Messages deleted by a purge.", _OF_QUEUE),
    "dead_lettered": StoredCounter(
        "queue_dead_lettered", "Messages sent to the dead-letter queue.", _OF_QUEUE
    ),
    "dropped": StoredCounter(
        "queue_dropped", "Messages deleted to make room in a full queue.", _OF_QUEUE
    ),
    "refused": StoredCounter(
        "queue_refused", "Messages refused, each time: the queue was full or paused.", _OF_QUEUE
    ),
}
QUEUES_OMITTED = Gauge(
    "queues_omitted", "Queues that match the option queues, but exceed queues_max."
)
QUEUES_READ = Gauge(
    "queues_read_timestamp_seconds", "Time of the last reading of the chosen queues, as Unix time."
)


#: All of them, by name.
METRICS: dict[str, Metric] = {
    each.name: each
    for each in (*globals().values(), *QUEUE_COUNTERS.values())
    if isinstance(each, Metric)
}


def reset() -> None:
    """Forgets everything: what a process counted before it became a worker is not the worker's."""
    for metric in METRICS.values():
        metric.reset()


def snapshot() -> Snapshot:
    """Returns what this process has counted."""
    return {name: [*metric.rows()] for name, metric in METRICS.items()}
