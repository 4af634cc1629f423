# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis serve``: the service, under gunicorn."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import ssl
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import msgspec
from gunicorn.app.base import BaseApplication
from msgspec import Struct
from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.api.app import App
from zaqar_redis.api.composition import ServiceParts, compose
from zaqar_redis.api.server.flags import SharedFlag
from zaqar_redis.api.server.master import Master
from zaqar_redis.auth.audit import AuditLog, AuditSettings
from zaqar_redis.auth.tokens import TokenSettings, short_keys
from zaqar_redis.cli import service_factory, service_log, service_options
from zaqar_redis.cli.base import ShellCommand, arg, takes
from zaqar_redis.conf.groups import (
    LISTEN,
    AuthSettings,
    ListenSettings,
    MetricsSettings,
    ProcessSettings,
    SslSettings,
    StorageSettings,
    WebSocketListenSettings,
)
from zaqar_redis.keyspace import embedded
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.formats import is_new, use_formats

if TYPE_CHECKING:
    from zaqar_redis.cli.serve_metrics import ServiceMetrics

LOG = logging.getLogger(__name__)


class CreateApp(Protocol):
    def __call__(self, is_stopping: Callable[[], bool], *, notifies: bool | None = None) -> App:
        """Returns the application of a worker.

        *is_stopping* tells whether the service stops; *notifies* whether the worker delivers to
        subscribers, None: as the options say.
        """


class Serve(ShellCommand):
    """Run the queue service.

    Without options it listens on 127.0.0.1:8888 and stores its data in a private
    Redis of its own. SIGHUP makes it read its configuration again. Example:

        zaqar-redis serve --bind 127.0.0.1:8000 --workers 2 --storage redis://localhost/0
    """

    arguments = takes(
        *service_options.ALL,
        arg(
            "--adopt",
            action="store_true",
            help="take over a store of another installation that is no longer in use",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        with contextlib.ExitStack() as stack:
            planner = ServicePlanner(parsed_args, stack)
            GunicornApplication(planner, planner.first()).run()
        return 0


class ServicePlan(Struct, frozen=True):
    """What the master and its workers are made by, from one reading of the configuration."""

    create: CreateApp
    host: str
    ports: Sequence[int]
    process: ProcessSettings
    ssl: SslSettings
    has_access_log: bool
    start_log: Callable[[], None]


class ServicePlanner:
    """Reads the configuration of a service, at its start and at each reload."""

    def __init__(self, parsed: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        """*stack*: closes an embedded store when the service ends."""
        self._parsed = parsed
        self._stack = stack
        #: as the configuration has it at the start, and that of the server that runs
        self._uri = self._running_uri = ""
        #: who gets metrics, from the start on
        self._metrics_settings = MetricsSettings()
        #: None: nobody wants metrics
        self.metrics: ServiceMetrics | None = None

    def first(self) -> ServicePlan:
        """Returns the plan of the start; runs an embedded store.  Raises BadConfiguration."""
        conf = self._read()
        # Before the plan, which connects to the store: from its first line on, one format of all.
        service_log.start(conf, configuration.settings(conf, ProcessSettings))
        uri = self._uri = self._running_uri = configuration.settings(conf, StorageSettings).uri
        if urlsplit(uri).scheme == "embedded":
            self._running_uri = self._stack.enter_context(embedded.running(uri))
        metrics = self._metrics_settings = configuration.settings(conf, MetricsSettings)
        if metrics.port:
            # Prometheus' library takes a tenth of a second, which a service without metrics saves.
            from zaqar_redis.cli.serve_metrics import ServiceMetrics

            self.metrics = ServiceMetrics(metrics)
        plan = self._plan(conf, self._running_uri, adopt=self._parsed.adopt)
        LOG.info("store: %s", redact_password(self._running_uri), extra={"action": "start"})
        if configuration.settings(conf, AuthSettings).insecure:
            LOG.warning(
                "everybody who reaches this service may act for every project (--insecure)",
                extra={"action": "insecure"},
            )
        return plan

    def again(self, before: ServicePlan) -> ServicePlan:
        """Returns the plan of a reload.  Raises BadConfiguration."""
        conf = self._read()
        uri = configuration.settings(conf, StorageSettings).uri
        if urlsplit(uri).scheme == "memory":
            raise errors.BadConfiguration(
                "[storage] uri: what memory:// stores would be lost; restart the service instead"
            )
        if uri != self._uri and "embedded" in (urlsplit(uri).scheme, urlsplit(self._uri).scheme):
            raise errors.BadConfiguration(
                "[storage] uri: an embedded store begins and ends with the service; restart it"
            )
        metrics = self._metrics_settings
        if configuration.settings(conf, MetricsSettings) != metrics:
            _warn_of_restart("[metrics] bind and port")
            for name, value in msgspec.structs.asdict(metrics).items():
                conf.set_override(name, value, group="metrics")
        plan = self._plan(conf, self._running_uri if uri == self._uri else uri, adopt=False)
        if (plan.host, plan.ports) != (before.host, before.ports):
            _warn_of_restart(f"[{LISTEN}] bind and ports")
        return msgspec.structs.replace(plan, host=before.host, ports=before.ports)

    def _read(self) -> cfg.ConfigOpts:
        conf = configuration.load([], self._parsed.config_file)
        service_options.apply(conf, self._parsed)
        if found := service_factory.problems(conf):
            raise errors.BadConfiguration("\n".join(found))
        return conf

    def _plan(self, conf: cfg.ConfigOpts, uri: str, *, adopt: bool) -> ServicePlan:
        create = service_factory.driver(conf, uri)
        if urlsplit(uri).scheme != "memory":  # only this process has that one
            channel_stores = service_factory.channel_stores(conf)
            asyncio.run(_check_stores(create(), channel_stores, uri, adopt))
        settings = service_factory.settings(conf)
        console = service_factory.console(conf)
        channels = service_factory.channels(conf, uri, console)
        for what, remedy in short_keys(configuration.settings(conf, TokenSettings)):
            LOG.warning("%s. %s", what, remedy, extra={"action": "short_key"})
            # PyJWT would say so in each worker, and cannot name the option.
            warnings.filterwarnings("ignore", "The HMAC key is ")
        if service_factory.lacks_charts(conf):
            LOG.info(
                "the console has no charts: in the checkout run tools/console-assets, which needs "
                "npm, and install again",
                extra={"action": "no_charts"},
            )
        create_tracing = service_factory.tracing(conf)
        audit = configuration.settings(conf, AuditSettings)
        listen = configuration.settings(conf, ListenSettings)
        port = configuration.settings(conf, WebSocketListenSettings).port
        process = configuration.settings(conf, ProcessSettings)
        metrics = self.metrics

        def create_app(is_stopping: Callable[[], bool], *, notifies: bool | None = None) -> App:
            access = service_factory.access(conf, uri)
            notifier = settings.notifier
            if notifies is not None:
                notifier = msgspec.structs.replace(notifier, in_service=notifies)
            parts = ServiceParts(
                create(),
                access,
                channels,
                console,
                AuditLog(audit),
                create_tracing() if create_tracing is not None else None,
                service_factory.trusts(conf),
                is_stopping=is_stopping,
                reads_queue_metrics=metrics.lock.acquire if metrics else lambda: True,
            )
            return App(compose(msgspec.structs.replace(settings, notifier=notifier), parts))

        return ServicePlan(
            create_app,
            listen.bind,
            [listen.port, port] if port else [listen.port],
            process,
            configuration.settings(conf, SslSettings),
            settings.access_log,
            lambda: service_log.start(conf, process),
        )


def _warn_of_restart(options: str) -> None:
    LOG.warning(
        "%s change when the service starts the next time",
        options,
        extra={"action": "reloaded"},
    )


async def _check_stores(driver: Driver, channels: Sequence[Driver], uri: str, adopt: bool) -> None:
    """Raises BadConfiguration when the store is another installation's, unless *adopt*, or a newer
    release has raised the format of a store above what this one knows.

    Stores that do not answer are passed over: a service may start before them, and workers check
    again.
    """
    is_owned = True
    for each in (driver, *channels):
        await each.start()
        try:
            new = each is driver and await is_new(each)  # those of channels have no queues
            if isinstance(each, PooledDriver):
                is_owned = await each.adoption.mark_default(adopt)
            if is_owned:
                await use_formats(each, is_new=new)
        except errors.FormatTooNew as error:
            raise errors.BadConfiguration(str(error)) from error
        except errors.Unavailable:
            continue
        finally:
            await each.close()
    if not is_owned:
        raise errors.BadConfiguration(
            f"the store {redact_password(uri)} belongs to another installation, perhaps as "
            "a pool of it: set [storage] uri and control_uri as in that one; or, if it is no "
            "longer in use, take the store over with --adopt"
        )


class GunicornApplication(BaseApplication):  # type: ignore[misc]  # gunicorn is untyped
    """gunicorn, configured from our options instead of its own files."""

    def __init__(self, planner: ServicePlanner, plan: ServicePlan) -> None:
        self._planner = planner
        self.plan = plan
        self.stopping = SharedFlag()
        super().__init__()

    @property
    def shutdown_delay(self) -> float:
        return self.plan.process.shutdown_delay

    def load_config(self) -> None:
        process, files = self.plan.process, self.plan.ssl
        host = f"[{self.plan.host}]" if ":" in self.plan.host else self.plan.host
        worker = "LoggingWorker" if self.plan.has_access_log else "Worker"
        settings: dict[str, Any] = {
            "bind": [f"{host}:{port}" for port in self.plan.ports],
            "workers": process.workers,
            "worker_class": f"zaqar_redis.api.server.worker.{worker}",
            "logger_class": service_log.GunicornLogger,
            "graceful_timeout": process.graceful_timeout,
            "loglevel": process.log_level,
            # Clients keep connections between requests; gunicorn's 2 s are too short for them.
            "keepalive": 75,
            "control_socket_disable": True,
            "proc_name": "zaqar-redis",
            "certfile": files.cert_file,
            "keyfile": files.key_file,
            "ca_certs": files.ca_file,
            "cert_reqs": ssl.CERT_REQUIRED if files.ca_file else ssl.CERT_NONE,
        }
        if self._planner.metrics is not None:
            settings |= self._planner.metrics.hooks()
        for name, value in settings.items():
            self.cfg.set(name, value)

    def reload(self) -> None:
        self.use(self._planner.again(self.plan))

    def use(self, plan: ServicePlan) -> None:
        self.plan = plan
        plan.start_log()
        if self._planner.metrics is not None:
            self._planner.metrics.count_log_events()
        self.do_load_config()

    def load(self) -> App:
        return self.plan.create(self.stopping.is_set)

    def run(self) -> None:
        Master(self).run()
