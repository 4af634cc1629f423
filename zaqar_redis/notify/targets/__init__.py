# SPDX-License-Identifier: Apache-2.0
"""The targets: each delivers to subscribers of some schemes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from stevedore import ExtensionManager

from zaqar_redis.notify.target import Target, TargetContext

GROUP = "zaqar_redis.targets"

#: The object of an entry point; its name is the scheme.
TargetFactory = Callable[[TargetContext], Target]


def load_targets(context: TargetContext) -> Mapping[str, Target]:
    """Returns the targets that are installed, by scheme."""
    installed: ExtensionManager[TargetFactory] = ExtensionManager(GROUP)
    factories: dict[str, Any] = {name: each.plugin for name, each in installed.items()}
    # One target may have several schemes.
    made = {factory: factory(context) for factory in set(factories.values())}
    return {name: made[factory] for name, factory in factories.items()}


class TargetLifecycle:
    """Starts the targets of a process once, when they are first needed, and closes them."""

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = {*targets.values()}
        self._starting = asyncio.Lock()
        self._started = False

    async def start(self) -> None:
        async with self._starting:
            if not self._started:
                await asyncio.gather(*(target.start() for target in self._targets))
                self._started = True

    async def close(self) -> None:
        async with self._starting:
            if self._started:
                self._started = False
                await asyncio.gather(*(target.close() for target in self._targets))
