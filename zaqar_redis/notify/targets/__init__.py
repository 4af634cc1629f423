# SPDX-License-Identifier: Apache-2.0
"""The targets: each delivers to subscribers of some schemes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from stevedore import DriverManager, NamedExtensionManager
from stevedore.exception import NoMatches

from zaqar_redis import errors
from zaqar_redis.notify.target import Target
from zaqar_redis.notify.target_context import TargetContext

GROUP = "zaqar_redis.targets"

#: The object of an entry point; its name is the scheme.
TargetFactory = Callable[[TargetContext], Target]


class Targets:
    """The targets that are installed; each is imported when it is first needed.

    The clients of HTTP and of mail take longer to import than all else of a service, and most
    processes deliver neither.
    """

    def __init__(self, context: TargetContext) -> None:
        self._context = context
        self.schemes: Collection[str] = set(NamedExtensionManager(GROUP, []).entry_points_names())
        #: by scheme
        self._found: dict[str, Target] = {}
        #: one target may have several schemes
        self._made: dict[TargetFactory, Target] = {}

    def find(self, subscriber: str) -> Target | None:
        """Returns what delivers to a subscriber; None: nothing does.  Raises BadConfiguration."""
        scheme = subscriber.partition(":")[0]
        found = self._found.get(scheme)
        if found is not None or scheme not in self.schemes:
            return found
        try:
            factory: TargetFactory = DriverManager(GROUP, scheme).driver
        except (ImportError, NoMatches) as error:
            raise errors.BadConfiguration(
                f"the target of {scheme}: cannot be imported: {errors.reason(error)}"
            ) from error
        if factory not in self._made:
            self._made[factory] = factory(self._context)
        self._found[scheme] = self._made[factory]
        return self._found[scheme]

    async def close(self) -> None:
        await asyncio.gather(*(target.close() for target in self._made.values()))
