# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis notify``: a process that delivers to subscribers, beside the service."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
from typing import TYPE_CHECKING

import uvloop

from zaqar_redis import garbage_collection
from zaqar_redis.cli import service_options
from zaqar_redis.cli.base import ShellCommand, takes
from zaqar_redis.cli.serve import CreateApp, ServicePlanner

if TYPE_CHECKING:
    from zaqar_redis.cli.serve_metrics import ServiceMetrics

LOG = logging.getLogger(__name__)


class Notify(ShellCommand):
    """Deliver messages to the subscribers of queues and topics.

    The service delivers itself, unless [notification] in_service is off. Run any number of these
    processes, on any machine; one at a time serves a queue. A process reads its configuration only
    at its start: to change it, start another process and stop the first, by SIGTERM, SIGINT or
    SIGHUP. Example:

        zaqar-redis notify --storage redis://localhost/0
    """

    arguments = takes(
        service_options.STORE,
        service_options.FILES,
        lambda _, parser: parser.set_defaults(
            bind=None, workers=None, admin=False, insecure=False, adopt=False
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        with contextlib.ExitStack() as stack:
            planner = ServicePlanner(parsed_args, stack)
            plan = planner.first()
            uvloop.run(_serve(plan.create, planner.metrics))
        return 0


async def _serve(create: CreateApp, metrics: ServiceMetrics | None) -> None:
    """Delivers until it is asked to stop."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    app = create(stopping.is_set, notifies=True)
    async with metrics.of_this_process() if metrics else contextlib.nullcontext():
        await app.process_startup(None, None)
        garbage_collection.tune()
        LOG.info("notifier started", extra={"action": "start"})
        try:
            await stopping.wait()
        finally:
            LOG.info("notifier stops", extra={"action": "stop"})
            await app.process_shutdown(None, None)
