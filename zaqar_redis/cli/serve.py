# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis serve``: the service, under gunicorn."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gunicorn.app.base import BaseApplication
from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.api.app import App
from zaqar_redis.auth.audit import AuditLog, AuditSettings
from zaqar_redis.cli import service_factory, target
from zaqar_redis.cli.base import ShellCommand
from zaqar_redis.conf.groups import (
    LISTEN,
    AuthSettings,
    ListenSettings,
    MetricsListenSettings,
    ProcessSettings,
    StorageSettings,
    WebSocketListenSettings,
)
from zaqar_redis.keyspace import client, embedded
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver

if TYPE_CHECKING:
    from zaqar_redis.cli.serve_metrics import ServiceMetrics

LOG = logging.getLogger(__name__)


class Serve(ShellCommand):
    """Run the queue service.

    Without options it listens on 127.0.0.1:8888 and stores its data in a private
    Redis of its own. Example:

        zaqar-redis serve --bind 127.0.0.1:8000 --workers 2 --storage redis://localhost/0
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--bind", metavar="HOST:PORT", help="address to listen on (127.0.0.1:8888)"
        )
        parser.add_argument("--workers", type=_workers, metavar="N", help="worker processes (1)")
        parser.add_argument(
            "--storage",
            metavar="URI",
            help="the store: embedded://[/directory], redis://host, rediss://host, "
            f"unix:///socket or memory:// ({target.URI_VARIABLE}; embedded://)",
        )
        parser.add_argument(
            "--admin",
            action="store_true",
            help="serve pools, flavors and health too, to everybody who reaches the service; with "
            "authentication they are served to administrators",
        )
        parser.add_argument(
            "--insecure",
            action="store_true",
            help="allow other addresses than loopback without authentication",
        )
        parser.add_argument(
            "--adopt",
            action="store_true",
            help="take over a store of another installation that is no longer in use",
        )
        parser.add_argument(
            "--config-file",
            action="append",
            metavar="FILE",
            help="configuration file; may be given more than once, the last one wins",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        try:
            conf = _load_options(parsed_args)
        except (cfg.Error, ValueError) as error:
            raise errors.BadConfiguration(str(error)) from error
        if found := service_factory.problems(conf):
            raise errors.BadConfiguration("\n".join(found))
        uri = configuration.settings(conf, StorageSettings).uri
        process = configuration.settings(conf, ProcessSettings)
        listen = configuration.settings(conf, ListenSettings)
        with contextlib.ExitStack() as stack:
            if urlsplit(uri).scheme == "embedded":
                uri = stack.enter_context(embedded.running(uri))
            create = service_factory.driver(conf, uri)
            if urlsplit(uri).scheme != "memory":  # only this process has that one
                asyncio.run(_check_ownership(create(), uri, parsed_args.adopt))
            settings = service_factory.settings(conf)
            channels = service_factory.channels(conf, uri)
            create_tracing = service_factory.tracing(conf)
            _start_logging(conf, process)
            LOG.info("store: %s", client.redact_password(uri), extra={"action": "start"})
            if configuration.settings(conf, AuthSettings).insecure:
                LOG.warning(
                    "everybody who reaches this service may act for every project (--insecure)",
                    extra={"action": "insecure"},
                )
            metrics = _metrics(conf)
            audit = configuration.settings(conf, AuditSettings)
            port = configuration.settings(conf, WebSocketListenSettings).port
            ports = [listen.port, port] if port else [listen.port]

            def create_app() -> App:
                access = service_factory.access(conf, uri)
                log = AuditLog(audit)
                tracing = create_tracing() if create_tracing is not None else None
                reads = metrics.lock.acquire if metrics is not None else lambda: True
                return App(
                    create(),
                    settings,
                    channels,
                    access,
                    log,
                    tracing,
                    reads_queue_metrics=reads,
                )

            hooks = metrics.hooks() if metrics is not None else {}
            GunicornApplication(create_app, listen.bind, ports, process, hooks).run()
        return 0


def _load_options(parsed: argparse.Namespace) -> cfg.ConfigOpts:
    conf = configuration.load([], parsed.config_file)
    if parsed.bind is not None:
        host, port = _address(parsed.bind)
        conf.set_override("bind", host, group=LISTEN)
        conf.set_override("port", port, group=LISTEN)
    if parsed.workers is not None:
        conf.set_override("workers", parsed.workers, group="server")
    if uri := parsed.storage or os.environ.get(target.URI_VARIABLE):
        conf.set_override("uri", uri, group="storage")
    if parsed.insecure:
        conf.set_override("insecure", True, group="auth")
    if parsed.admin:
        conf.set_override("admin_mode", True)
    return conf


def _metrics(conf: cfg.ConfigOpts) -> ServiceMetrics | None:
    settings = configuration.settings(conf, MetricsListenSettings)
    if not settings.port:
        return None
    # Prometheus' library takes a tenth of a second, which a service without metrics saves.
    from zaqar_redis.cli.serve_metrics import ServiceMetrics

    return ServiceMetrics(settings)


async def _check_ownership(driver: Driver, uri: str, adopt: bool) -> None:
    """Raises BadConfiguration when the store is another installation's, unless *adopt*."""
    if not isinstance(driver, PooledDriver):
        return
    await driver.start()
    try:
        is_owned = await driver.adoption.mark_default(adopt)
    except errors.Unavailable:
        return  # a service may start before its store: workers check again
    finally:
        await driver.close()
    if not is_owned:
        raise errors.BadConfiguration(
            f"the store {client.redact_password(uri)} belongs to another installation, perhaps as "
            "a pool of it: set [storage] uri and control_uri as in that one; or, if it is no "
            "longer in use, take the store over with --adopt"
        )


def _workers(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text}: it must be a number from 1 to 256")
    return int(text)


def _address(bind: str) -> tuple[str, int]:
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:]*))(?::(\d+))?", bind)
    if not found or int(found[3] or 0) > 65535:
        raise ValueError(f"--bind {bind}: it must be HOST:PORT, HOST or :PORT")
    return found[1] or found[2] or "127.0.0.1", int(found[3] or 8888)


def _start_logging(conf: cfg.ConfigOpts, process: ProcessSettings) -> None:
    # Replaces the format of the command line: a service's log has times.
    if process.log_format == "oslo":
        from oslo_log import log

        log.setup(conf, "zaqar-redis")
        return
    logging.basicConfig(
        level=process.log_level.upper(),
        format="[%(asctime)s] [%(process)d] [%(levelname)s] %(message)s",
        force=True,
    )


class GunicornApplication(BaseApplication):  # type: ignore[misc]  # gunicorn is untyped
    """gunicorn, configured from our options instead of its own files."""

    def __init__(
        self,
        create: Callable[[], App],
        host: str,
        ports: Sequence[int],
        process: ProcessSettings,
        hooks: Mapping[str, Any],
    ) -> None:
        """*hooks*: more settings of gunicorn."""
        self._create = create
        self._host = host
        self._ports = ports
        self._process = process
        self._hooks = hooks
        super().__init__()

    def load_config(self) -> None:
        process = self._process
        host = f"[{self._host}]" if ":" in self._host else self._host
        settings: dict[str, Any] = {
            "bind": [f"{host}:{port}" for port in self._ports],
            "workers": process.workers,
            "worker_class": "zaqar_redis.api.server.worker.Worker",
            "graceful_timeout": process.graceful_timeout,
            "loglevel": process.log_level,
            # Clients keep connections between requests; gunicorn's 2 s are too short for them.
            "keepalive": 75,
            "control_socket_disable": True,
            "proc_name": "zaqar-redis",
            **self._hooks,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:  # older releases have no control socket to disable
                self.cfg.set(name, value)

    def load(self) -> App:
        return self._create()
