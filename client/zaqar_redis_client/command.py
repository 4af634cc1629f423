# SPDX-License-Identifier: Apache-2.0
"""`zaqar-redis-worker module:worker`: runs a worker until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

from zaqar_redis_client.consuming import Consumer
from zaqar_redis_client.errors import ZaqarError
from zaqar_redis_client.worker import Worker


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("worker", metavar="MODULE:WORKER", help="where the Worker is")
    parser.add_argument(
        "--concurrency",
        type=_positive,
        metavar="N",
        help="functions at a time (default: the worker's)",
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="start again when a Python file below this folder changes",
    )
    parser.add_argument(
        "--no-live",
        action="store_true",
        help="log lines at a terminal, too, instead of a live view",
    )
    parser.add_argument(
        "--metrics",
        type=_address,
        metavar="[HOST:]PORT",
        help="serve metrics for Prometheus there (default host: 127.0.0.1)",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("it must be a number, 1 or more")
    return int(text)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise argparse.ArgumentTypeError("it must be [HOST:]PORT with a port of 1 to 65535")
    return host.strip("[]") or "127.0.0.1", int(port)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="zaqar-redis-worker", description="Run a worker.")
    add_arguments(parser)
    return run(parser.parse_args(words))


def run(arguments: argparse.Namespace) -> int:
    """Returns the exit code; 2: the worker was not found, or its metrics cannot be had."""
    if arguments.reload:
        return _reload(arguments)
    try:
        worker = _load(arguments.worker)
        worker.concurrency = arguments.concurrency or worker.concurrency
        asyncio.run(_work(worker, arguments))
    except (_NoWorker, ZaqarError) as error:
        print(f"zaqar-redis-worker: {error}", file=sys.stderr)
        return 2 if isinstance(error, _NoWorker) else 1
    return 0


class _NoWorker(Exception):
    """The words of the command name none, or an address that cannot be had."""


def _load(place: str) -> Worker:
    """Raises _NoWorker, and what the module raises."""
    path, _, name = place.partition(":")
    if not name or path[:1] in ("", "."):
        raise _NoWorker(f"{place!r}: write MODULE:WORKER, as in mails.tasks:worker")
    sys.path.insert(0, os.getcwd())
    try:
        module = import_module(path)
    except ModuleNotFoundError as error:
        if not f"{path}.".startswith(f"{error.name}."):
            raise  # of something that the module imports
        raise _NoWorker(f"{error} in {os.getcwd()}, or installed") from None
    try:
        found: Any = attrgetter(name)(module)
    except AttributeError:
        raise _NoWorker(f"{path} has no {name}") from None
    if not isinstance(found, Worker):
        raise _NoWorker(f"{place} is no Worker, but {type(found).__name__}")
    if not found.tasks:
        raise _NoWorker(f"{place} has no tasks: decorate functions with its `task`")
    return found


def _serve_metrics(worker: Worker, consumer: Consumer, host: str, port: int) -> None:
    try:
        from zaqar_redis_client.metrics import serve

        serve(worker, consumer, host, port)
    except ImportError:
        raise _NoWorker(
            "--metrics needs prometheus_client: pip install prometheus-client"
        ) from None
    except OSError as error:
        raise _NoWorker(f"--metrics {host}:{port}: {error.strerror}") from None


async def _work(worker: Worker, arguments: argparse.Namespace) -> None:
    consumer = worker.consumer()
    if arguments.metrics:
        _serve_metrics(worker, consumer, *arguments.metrics)
    if not arguments.no_live and sys.stdout.isatty() and find_spec("rich") is not None:
        from zaqar_redis_client.live import showing

        async with showing(worker, consumer):
            await worker.work(consumer)
        return
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stdout,
        format="%(asctime)s %(levelname)s %(message)s",
        force=True,  # `zaqar-redis worker` has handlers of its own
    )
    await worker.work(consumer)


def _reload(arguments: argparse.Namespace) -> int:
    try:
        from watchfiles import PythonFilter, run_process
    except ImportError:
        raise SystemExit("--reload needs watchfiles: pip install watchfiles") from None
    again = argparse.Namespace(**{**vars(arguments), "reload": False, "no_live": True})
    with contextlib.suppress(KeyboardInterrupt):
        run_process(".", target=run, args=(again,), watch_filter=PythonFilter())
    return 0


if __name__ == "__main__":
    sys.exit(main())
