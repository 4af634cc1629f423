# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis upgrade``: the formats of the stores, and what this release changes in them."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cliff.lister import Lister
from msgspec import structs

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.cli import stores
from zaqar_redis.cli.api import print_warning
from zaqar_redis.cli.base import Table, TargetCommand, arg, takes
from zaqar_redis.cli.target import quiet_logging
from zaqar_redis.formats import CHANGES, CURRENT, WorkerRelease
from zaqar_redis.keyspace import embedded
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.runner import Runner
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.formats import check_format
from zaqar_redis.storage.load import load


class StoreRow(NamedTuple):
    """What is known of a store, and what the upgrade does with it."""

    store: str
    #: None: it is not known
    format: int | None
    #: after the upgrade
    becomes: int | None
    adds: str
    #: what has to be done before
    first: str
    #: the oldest format whose releases can go on using the store
    back: int | None


class UpgradeStores(TargetCommand, Lister):
    """Raise the format of the stores to that of this release, or show the changes.

    Prints for each store (the service's own, and stores of pools, channels and control) its old and
    new format, the additions, necessary steps before, and the releases that can still use it; on
    standard error the releases of the workers, and the number of marked stores. While a step is
    missing the command changes nothing, and exits with 1. Services may run meanwhile. Example:

        zaqar-redis upgrade --check --config-file /etc/zaqar_redis/zaqar_redis.conf
    """

    arguments = takes(arg("--check", action="store_true", help="change nothing"))

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        quiet_logging()
        conf = configuration.load([], parsed_args.config_file)
        options = structs.asdict(configuration.settings(conf, BatchSettings))
        with embedded.running_if_embedded(self.target.uri) as uri, Runner() as runner:
            installation = runner.run(stores.read_installation, conf, uri)
            print_warning(f"workers: {_summary(installation.workers)}")
            named = [*stores.named_stores(conf, uri, installation)]
            drivers = [load(each.uri, {**options, **each.options}) for each in named]
            try:
                names = [each.name for each in named]
                rows = runner.run(_look_at_all, names, drivers, installation.workers)
                if any(row.first for row in rows):
                    self.exit_code = 1
                    print_warning("no store was marked: first do what the table says")
                elif not parsed_args.check:
                    marked = sum([runner.run(_raise, driver) for driver in drivers])
                    print_warning(_outcome(marked))
            finally:
                runner.run(_close, drivers)
        return StoreRow._fields, [*rows]


def _summary(workers: Sequence[WorkerRelease] | None) -> str:
    if workers is None:
        return "not known, without a control store that answers"
    found = Counter(
        f"of release {each.release} (format {each.format})"
        if each.release
        else "of an older release"
        for each in workers
    )
    return ", ".join(f"{count} {what}" for what, count in sorted(found.items())) or "none"


async def _look_at_all(
    names: Sequence[str], drivers: Sequence[Driver], workers: Sequence[WorkerRelease] | None
) -> list[StoreRow]:
    """Starts and looks at the stores side by side: some may be away."""

    async def look(name: str, driver: Driver) -> StoreRow:
        await driver.start()
        return await _look(name, driver, workers)

    return await asyncio.gather(*map(look, names, drivers))


async def _close(drivers: Iterable[Driver]) -> None:
    await asyncio.gather(*(each.close() for each in drivers))


async def _look(name: str, driver: Driver, workers: Sequence[WorkerRelease] | None) -> StoreRow:
    if driver.ownership is None:
        return StoreRow(name, None, None, "its driver stores no format", "", None)
    try:
        found = await check_format(driver.ownership.format, name)
    except (errors.FormatTooNew, errors.Unavailable) as error:
        return StoreRow(name, None, None, "", errors.reason(error), None)
    older = [each for each in workers or () if each.format < CURRENT.needs]
    return StoreRow(
        name,
        found.version,
        max(found.version, CURRENT.version),
        "; ".join(each.adds for each in CHANGES if each.version > found.version),
        f"replace {len(older)} workers of releases below format {CURRENT.needs}" if older else "",
        max(found.needs, CURRENT.needs),
    )


async def _raise(driver: Driver) -> bool:
    """Returns whether that changed the mark of the store."""
    if driver.ownership is None:
        return False
    mark = driver.ownership.format
    found = await mark.get()
    await mark.raise_to(CURRENT.version, CURRENT.needs)
    return found.version < CURRENT.version or found.needs < CURRENT.needs


def _outcome(marked: int) -> str:
    if not marked:
        return f"nothing to do: all stores have format {CURRENT.version}, or a newer one"
    return f"{marked} {'store' if marked == 1 else 'stores'} marked with format {CURRENT.version}"
