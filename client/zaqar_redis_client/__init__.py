# SPDX-License-Identifier: Apache-2.0
"""A client of Zaqar's queues, with and without `await`.

For example::

    from zaqar_redis_client import Client

    with Client("http://127.0.0.1:8888", "demo") as client:
        client.queue("jobs").post({"job": 1})
"""

from zaqar_redis_client.blocking import Claim, Client, Lease, Queue, Topic
from zaqar_redis_client.claims import AsyncClaim, AsyncLease
from zaqar_redis_client.clients import AsyncClient
from zaqar_redis_client.credentials import Credential, SignedURL, Token
from zaqar_redis_client.errors import (
    JobFailed,
    LeaseLost,
    NotFound,
    Refused,
    Unavailable,
    Unsupported,
    ZaqarError,
)
from zaqar_redis_client.queues import AsyncQueue, AsyncTopic
from zaqar_redis_client.records import Attribute, Draft, Message
from zaqar_redis_client.tasks import Retry, Task
from zaqar_redis_client.worker import Worker

# fmt: off
__all__ = [
    "AsyncClaim", "AsyncClient", "AsyncLease", "AsyncQueue", "AsyncTopic", "Attribute", "Claim",
    "Client", "Credential", "Draft", "JobFailed", "Lease", "LeaseLost", "Message", "NotFound",
    "Queue", "Refused", "Retry", "SignedURL", "Task", "Token", "Topic", "Unavailable",
    "Unsupported", "Worker", "ZaqarError",
]
